"""One small Django project for every Django peer; BENCH_SITE picks the queue.

Models, sessions and auth are installed and the database is real, so that what a
queue does round each task inside Django (signals, closing old connections) is
paid for here as it is in a real project.
"""

import os
import tempfile

from benchmarks import probe

SITE = os.environ.get("BENCH_SITE", "")
CACHE = os.environ.get("BENCH_CACHE") or tempfile.gettempdir()
SECRET_KEY = "bench"
USE_TZ = True
DEBUG = False
LOGGING_CONFIG = None
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth"]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.path.join(CACHE, f"{SITE or 'site'}.sqlite3"),
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
    }
}
POSTGRES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "bench",
        "USER": "bench",
        "HOST": "127.0.0.1",
        "PORT": probe.PG_PORT,
        "CONN_MAX_AGE": 60,
    }
}
RQ_QUEUES = {"default": {"HOST": probe.REDIS_HOST, "PORT": probe.REDIS_PORT, "DB": 0}}

if SITE == "django_rq":
    INSTALLED_APPS += ["django_rq"]
if SITE == "django_tasks_rq":
    INSTALLED_APPS += ["django_tasks", "django_rq", "django_tasks_rq"]
    TASKS = {"default": {"BACKEND": "django_tasks_rq.RQBackend", "QUEUES": ["default"]}}
    RQ_QUEUES["default"]["DEFAULT_RESULT_TTL"] = 0
    RQ = {"DEFAULT_RESULT_TTL": 0}
if SITE.startswith("django_tasks_db"):
    INSTALLED_APPS += ["django_tasks_db"]
    TASKS = {"default": {"BACKEND": "django_tasks_db.DatabaseBackend"}}
if SITE == "threadmill":
    INSTALLED_APPS += ["threadmill"]
    TASKS = {"default": {"BACKEND": "threadmill.backends.redis.RedisTaskBackend", "REDIS_URL": probe.REDIS_URL}}
if SITE == "django_vtasks":
    INSTALLED_APPS += ["django_vtasks"]
    TASKS = {
        "default": {
            "BACKEND": "django_vtasks.backends.valkey.ValkeyTaskBackend",
            "OPTIONS": {"BROKER_URL": probe.REDIS_URL},
        }
    }
if SITE == "django_tasks_redis":
    INSTALLED_APPS += ["django_tasks_redis"]
    TASKS = {
        "default": {
            "BACKEND": "django_tasks_redis.RedisTaskBackend",
            "OPTIONS": {"REDIS_URL": probe.REDIS_URL, "REDIS_COMPLETED_TASK_TTL": 1},
        }
    }
if SITE == "django_q2":
    INSTALLED_APPS += ["django_q"]
    Q_CLUSTER = {
        "name": "bench",
        "workers": int(probe.PLAN.get("conc", 2)),
        "timeout": 60,
        "retry": 120,
        "save_limit": -1,
        "log_level": "WARNING",
        "redis": {"host": probe.REDIS_HOST, "port": probe.REDIS_PORT, "db": 0},
    }
if SITE == "procrastinate":
    INSTALLED_APPS += ["procrastinate.contrib.django"]
if SITE in ("procrastinate", "django_tasks_db_pg"):
    DATABASES = POSTGRES
if SITE == "django_taskq":
    INSTALLED_APPS += ["django_taskq"]
    MORE = int(probe.PLAN.get("queues", "1")) - 1
    TASKS = {
        "default": {
            "BACKEND": "django_taskq.backend.RedisBackend",
            # The one that is used is the last in order.
            "QUEUES": [*(f"queue-{number}" for number in range(MORE)), "default"],
            "OPTIONS": {"url": probe.REDIS_URL},
        }
    }
    if probe.VARIANT == "records":
        DATABASES = POSTGRES
        TASKS["default"]["OPTIONS"]["records"] = "finished"
