"""Settings of the test suite's Django project."""

from __future__ import annotations

import os

from tests.servers import project_url

SECRET_KEY = "tests"
DEBUG = False
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en-us"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "django_taskq",
    "tests.app",
]

# For the admin.
ROOT_URLCONF = "tests.urls"
STATIC_URL = "static/"
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "tests.app.csp.forbid_inline",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

DATABASES = {
    "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ.get("TASKQ_TEST_DATABASE", ":memory:")},
    "other": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ.get("TASKQ_TEST_OTHER", ":memory:")},
}

TASKS = {
    "default": {
        "BACKEND": "django_taskq.backend.RedisBackend",
        "QUEUES": [],
        # The server that the fixtures `redis_server` and `redis_url` start.
        "OPTIONS": {"url": os.environ.get("TASKQ_TEST_URL") or project_url()},
    }
}
