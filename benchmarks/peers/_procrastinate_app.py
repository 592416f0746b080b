"""The procrastinate application: Django's connection for producers, its own
asynchronous pool for the worker, as its Django guide sets them up."""

import django

django.setup()

from procrastinate.contrib.django import app as django_app  # noqa: E402

from benchmarks.peers import _tasks  # noqa: E402

noop = django_app.task(name="noop")(_tasks.anoop)
nap = django_app.task(name="nap")(_tasks.anap)
app = django_app.with_connector(django_app.connector.get_worker_connector())
