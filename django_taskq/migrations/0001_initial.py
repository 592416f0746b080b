from django.db import migrations, models

import django_taskq.models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="DeadLetter",
            fields=[
                ("key", models.CharField(max_length=255, primary_key=True, serialize=False, verbose_name="ID")),
            ],
            options={
                "verbose_name": "dead letter",
                "verbose_name_plural": "dead letters",
                "permissions": [
                    ("retry_deadletter", "Can retry dead letters"),
                    ("discard_deadletter", "Can discard dead letters"),
                ],
                "abstract": False,
                "managed": False,
                "default_permissions": ("view",),
                "base_manager_name": "objects",
            },
        ),
        migrations.CreateModel(
            name="Lease",
            fields=[
                ("key", models.CharField(max_length=255, primary_key=True, serialize=False, verbose_name="ID")),
            ],
            options={
                "verbose_name": "active lease",
                "verbose_name_plural": "active leases",
                "abstract": False,
                "managed": False,
                "default_permissions": ("view",),
                "base_manager_name": "objects",
            },
        ),
        migrations.CreateModel(
            name="Queue",
            fields=[
                ("key", models.CharField(max_length=255, primary_key=True, serialize=False, verbose_name="ID")),
            ],
            options={
                "verbose_name": "queue",
                "verbose_name_plural": "queues",
                "abstract": False,
                "managed": False,
                "default_permissions": ("view",),
                "base_manager_name": "objects",
            },
        ),
        migrations.CreateModel(
            name="TaskRecord",
            fields=[
                (
                    "id",
                    django_taskq.models.IdField(max_length=64, primary_key=True, serialize=False, verbose_name="ID"),
                ),
                ("backend", models.CharField(max_length=255, verbose_name="backend")),
                ("task", models.CharField(max_length=255, verbose_name="task")),
                ("queue", models.CharField(max_length=100, verbose_name="queue")),
                ("priority", models.SmallIntegerField(default=0, verbose_name="priority")),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("waiting", "waiting"),
                            ("running", "running"),
                            ("succeeded", "succeeded"),
                            ("dead", "dead"),
                            ("cancelled", "cancelled"),
                            ("duplicate", "duplicate"),
                        ],
                        max_length=10,
                        verbose_name="status",
                    ),
                ),
                ("token", models.BigIntegerField(default=0, verbose_name="fencing token")),
                ("attempts", models.IntegerField(default=0, verbose_name="attempts")),
                ("worker", models.CharField(blank=True, max_length=120, verbose_name="worker")),
                ("idempotency_key", models.CharField(blank=True, max_length=255, verbose_name="idempotency key")),
                ("envelope", models.TextField(verbose_name="envelope")),
                ("result", models.TextField(blank=True, verbose_name="result")),
                ("history", models.TextField(default="[]", verbose_name="history")),
                ("enqueued_at", models.DateTimeField(verbose_name="enqueued at")),
                ("started_at", models.DateTimeField(blank=True, null=True, verbose_name="started at")),
                ("last_attempted_at", models.DateTimeField(blank=True, null=True, verbose_name="last attempted at")),
                ("finished_at", models.DateTimeField(blank=True, null=True, verbose_name="finished at")),
            ],
            options={
                "verbose_name": "task record",
                "verbose_name_plural": "task records",
                "default_permissions": ("view",),
                "indexes": [
                    models.Index(fields=["status", "-finished_at"], name="taskq_status_finished"),
                    models.Index(fields=["task", "-finished_at"], name="taskq_task_finished"),
                    models.Index(fields=["backend", "finished_at"], name="taskq_backend_finished"),
                ],
            },
        ),
    ]
