from django.db import migrations, models


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
    ]
