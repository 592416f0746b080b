"""What the admin lists of the queue: models without a table, whose instances are read from Redis."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.utils.translation import gettext_lazy as _


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
