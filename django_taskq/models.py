"""The table of what is kept of tasks, and what the admin lists of the queue: models that are read from Redis."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.translation import gettext_lazy as _

from .broker.envelope import Envelope
from .broker.exceptions import UnreadableRecord


class IdField(models.CharField):  # type: ignore[type-arg]  # generic in django-stubs
    """Letters and digits that differ in case, also where a database compares text without it."""

    def db_parameters(self, connection: BaseDatabaseWrapper) -> Any:
        parameters = super().db_parameters(connection)
        if connection.vendor == "mysql":
            return {**parameters, "type": f"{parameters['type']} CHARACTER SET ascii COLLATE ascii_bin"}
        return parameters


class TaskRecord(models.Model):
    """What is kept of a task in the database.

    Texts are stored as `rows` makes them, for no database takes them all: never as they come from a task. A row is
    replaced only under a token at least as high as its own.
    """

    class Status(models.TextChoices):
        WAITING = "waiting", _("waiting")
        RUNNING = "running", _("running")
        SUCCEEDED = "succeeded", _("succeeded")
        DEAD = "dead", _("dead")
        CANCELLED = "cancelled", _("cancelled")
        DUPLICATE = "duplicate", _("duplicate")

    id = IdField(_("ID"), max_length=64, primary_key=True)
    backend = models.CharField(_("backend"), max_length=255)
    task = models.CharField(_("task"), max_length=255)
    queue = models.CharField(_("queue"), max_length=100)
    priority = models.SmallIntegerField(_("priority"), default=0)
    status = models.CharField(_("status"), max_length=10, choices=Status.choices)
    #: The fencing token of the lease under which the row was written.
    token = models.BigIntegerField(_("fencing token"), default=0)
    #: Attempts since it was enqueued, or last retried by a person.
    attempts = models.IntegerField(_("attempts"), default=0)
    #: The child that made the last attempt.
    worker = models.CharField(_("worker"), max_length=120, blank=True)
    idempotency_key = models.CharField(_("idempotency key"), max_length=255, blank=True)
    #: What was enqueued: the JSON document that Redis holds.
    envelope = models.TextField(_("envelope"))
    #: What the task returned, as JSON; empty where nothing is kept.
    result = models.TextField(_("result"), blank=True)
    #: The last attempts, as a JSON list of objects; times are in ms.
    history = models.TextField(_("history"), default="[]")
    enqueued_at = models.DateTimeField(_("enqueued at"))
    started_at = models.DateTimeField(_("started at"), null=True, blank=True)
    last_attempted_at = models.DateTimeField(_("last attempted at"), null=True, blank=True)
    finished_at = models.DateTimeField(_("finished at"), null=True, blank=True)
    #: Whether it was written when the task was enqueued; such a row lets a worker push the task again.
    is_outbox = models.BooleanField(_("outbox"), default=False, db_default=False)
    #: What it was to be delayed by, counted from `enqueued_at`.
    delay_ms = models.BigIntegerField(_("delay in ms"), default=0, db_default=0)
    #: When a worker asks Redis about it next; empty where nothing is to be repaired.
    repair_at = models.DateTimeField(_("repair at"), null=True, blank=True)

    class Meta:
        verbose_name = _("task record")
        verbose_name_plural = _("task records")
        default_permissions = ("view",)
        indexes = [
            models.Index(fields=["status", "-finished_at"], name="taskq_status_finished"),
            models.Index(fields=["task", "-finished_at"], name="taskq_task_finished"),
            models.Index(fields=["backend", "finished_at"], name="taskq_backend_finished"),
            models.Index(fields=["backend", "repair_at"], name="taskq_backend_repair"),
        ]

    def __str__(self) -> str:
        return f"{self.task} ({self.id})"

    @property
    def args(self) -> list[Any]:
        return self._envelope.args

    @property
    def kwargs(self) -> dict[str, Any]:
        return self._envelope.kwargs

    @property
    def _envelope(self) -> Envelope:
        try:
            return Envelope.from_bytes(self.envelope.encode())
        except UnreadableRecord:
            return Envelope(self.task)


class NoTableManager(models.Manager[Any]):
    """Finds nothing, so that `dumpdata` and the like ask no database for a table that isn't there."""

    def get_queryset(self) -> models.QuerySet[Any]:
        return super().get_queryset().none()


class RedisModel(models.Model):
    """Something that Redis holds, named by the alias of its backend and an id: `alias:id`."""

    #: What the dashboard read from Redis to show this instance.
    shown: Any = None

    key = models.CharField(_("ID"), max_length=255, primary_key=True)

    objects = NoTableManager()

    class Meta:
        abstract = True
        managed = False
        base_manager_name = "objects"
        default_permissions = ("view",)

    def __str__(self) -> str:
        return str(self.shown) if self.shown else self.identifier

    @property
    def alias(self) -> str:
        return self.key.rpartition(":")[0]

    @property
    def identifier(self) -> str:
        """The id of the record, or the name of the queue."""
        return self.key.rpartition(":")[2]


class Lease(RedisModel):
    class Meta(RedisModel.Meta):
        verbose_name = _("active lease")
        verbose_name_plural = _("active leases")


class DeadLetter(RedisModel):
    class Meta(RedisModel.Meta):
        verbose_name = _("dead letter")
        verbose_name_plural = _("dead letters")
        permissions = [
            ("retry_deadletter", _("Can retry dead letters")),
            ("discard_deadletter", _("Can discard dead letters")),
        ]


class Queue(RedisModel):
    class Meta(RedisModel.Meta):
        verbose_name = _("queue")
        verbose_name_plural = _("queues")
