"""What the admin's models and files mean for a project: no table, no migration, nothing inline."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from django.core import checks
from django.core.management import call_command
from django.test import override_settings

import django_taskq
from django_taskq.models import DeadLetter, Lease, Queue

PACKAGE = Path(django_taskq.__file__).parent
TEMPLATES = sorted(PACKAGE.glob("templates/**/*.html"))


def output_of(*command, **options):
    out = io.StringIO()
    call_command(*command, stdout=out, **options)
    return out.getvalue()


@pytest.mark.django_db
@pytest.mark.parametrize("options", [{}, {"use_base_manager": True}])
def test_dumpdata_asks_for_no_table(options):
    assert json.loads(output_of("dumpdata", "django_taskq", **options)) == []


@pytest.mark.django_db
def test_queries_find_nothing():
    for model in (DeadLetter, Lease, Queue):
        assert model.objects.count() == 0
        assert not model.objects.filter(pk="x").exists()
        assert model.objects.all().delete() == (0, {})


@pytest.mark.django_db
@pytest.mark.parametrize("language", ["en-us", "de"])
def test_no_migration_is_missing(language):
    with override_settings(LANGUAGE_CODE=language, DEFAULT_AUTO_FIELD="django.db.models.AutoField"):
        assert output_of("makemigrations", "django_taskq", check=True, dry_run=True).startswith("No changes")


def test_the_checks_find_nothing():
    with override_settings(DEBUG=False):
        assert [problem for problem in checks.run_checks() if "django_taskq" in str(problem.obj)] == []


def test_static_files_can_be_given_hashed_names(tmp_path):
    storage = {"BACKEND": "django.contrib.staticfiles.storage.ManifestStaticFilesStorage"}
    with override_settings(STATIC_ROOT=tmp_path, STORAGES={"staticfiles": storage}):
        call_command("collectstatic", interactive=False, verbosity=0)
    manifest = json.loads((tmp_path / "staticfiles.json").read_text())["paths"]
    assert {"django_taskq/dashboard.css", "django_taskq/progress.js"} <= set(manifest)


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_templates_have_nothing_inline(path):
    text = path.read_text()
    assert not re.search(r"<style|\sstyle\s*=|\son\w+\s*=|javascript:", text)
    assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", text))
    assert "|safe" not in text
    assert "autoescape" not in text
