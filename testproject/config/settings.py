"""Settings of the shop; the environment may move its data and its Redis."""

import os
from datetime import timedelta
from pathlib import Path

import django

BASE_DIR = Path(__file__).resolve().parent.parent
#: The database, sent mail and exports: everything that the shop writes.
DATA_DIR = Path(os.environ.get("SHOP_DATA", BASE_DIR / "var"))
DATA_DIR.mkdir(parents=True, exist_ok=True)

SECRET_KEY = os.environ.get("SHOP_SECRET_KEY", "only-for-the-demonstration-of-a-task-queue-on-this-machine")
DEBUG = os.environ.get("SHOP_DEBUG", "1") == "1"
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]"]

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_taskq",
    "shop",
    "ledger",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
if django.VERSION >= (6, 0):
    # Neither the shop nor the pages of the task queue need anything inline.
    MIDDLEWARE.append("django.middleware.csp.ContentSecurityPolicyMiddleware")
    SECURE_CSP = {"default-src": ["'self'"], "img-src": ["'self'", "data:"], "frame-ancestors": ["'none'"]}

ROOT_URLCONF = "config.urls"
WSGI_APPLICATION = "config.wsgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": DATA_DIR / "shop.sqlite3",
        "OPTIONS": {
            # A web server and a worker with many threads write to this file: readers don't wait for writers, a writer
            # waits for its turn when its transaction begins, and it waits long enough.
            "init_command": "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL",
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
        },
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

REDIS_URL = os.environ.get("TASKQ_REDIS_URL", "redis://localhost:6379/0")

TASKS = {
    "default": {
        "BACKEND": "django_taskq.backend.RedisBackend",
        # A worker serves them in this order, but for the last: that is for the Node.js service in testproject/receipts.
        "QUEUES": ["payments", "mail", "default", "reports", "receipts"],
        "OPTIONS": {
            "url": REDIS_URL,
            "namespace": "taskq-demo",
            # A row for each task that has ended; Redis forgets results after a day.
            "records": "finished",
            "records_ttl": timedelta(days=30).total_seconds(),
        },
    },
    # For `manage.py ledger`, which takes leases away: short ones, so that their holders soon see it.
    "ledger": {
        "BACKEND": "django_taskq.backend.RedisBackend",
        "OPTIONS": {
            "url": REDIS_URL,
            "namespace": "taskq-ledger",
            "lease_seconds": 1,
        },
    },
}

MAIL_DIR = DATA_DIR / "mail"
if django.VERSION >= (6, 1):
    MAILERS = {
        "default": {
            "BACKEND": "django.core.mail.backends.filebased.EmailBackend",
            "OPTIONS": {"file_path": str(MAIL_DIR)},
        }
    }
else:
    EMAIL_BACKEND = "django.core.mail.backends.filebased.EmailBackend"
    EMAIL_FILE_PATH = MAIL_DIR
DEFAULT_FROM_EMAIL = "Kettle & Leaf <shop@example.com>"

LANGUAGE_CODE = "en-gb"
TIME_ZONE = "UTC"
USE_I18N = True
USE_TZ = True

STATIC_URL = "static/"
LOGIN_URL = "admin:login"

#: Where the task `export_stock` leaves its files.
EXPORT_DIR = DATA_DIR / "exports"
#: Whether receipts are made: the service in testproject/receipts must run.
RECEIPTS = os.environ.get("SHOP_RECEIPTS") == "1"
#: How long after the order a customer is asked for a review; a real shop waits for days.
REMINDER_AFTER = timedelta(seconds=float(os.environ.get("SHOP_REMINDER_SECONDS", "20")))
