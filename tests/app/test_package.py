"""What the package exports, and what it needs where Django has no tasks of its own."""

from __future__ import annotations

import subprocess
import sys

import django
import pytest

import django_taskq


@pytest.mark.parametrize("name", django_taskq.__all__)
def test_every_exported_name_is_there(name):
    assert getattr(django_taskq, name).__name__ == name
    assert name in dir(django_taskq)


def test_other_names_are_not():
    with pytest.raises(AttributeError, match="no attribute 'foreground'"):
        django_taskq.foreground


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)


def test_the_rings_load_no_django():
    code = (
        "import sys, django_taskq.broker.broker; from django_taskq import EnqueueError, Retry\n"
        "sys.exit(any(name.partition('.')[0] in ('django', 'asgiref', 'django_tasks') for name in sys.modules))"
    )
    done = run(code)

    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(django.VERSION >= (6, 0), reason="only Django 5.2 needs the backport")
def test_without_the_backport_the_import_says_what_to_install():
    done = run("import sys; sys.modules['django_tasks'] = None; import django_taskq.compat")

    assert "pip install 'django-taskq-redis[django52]'" in done.stderr
