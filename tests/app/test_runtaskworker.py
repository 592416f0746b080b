"""`manage.py runtaskworker`: what its arguments may be."""

from __future__ import annotations

import pytest
from django.core.management import CommandError, call_command, load_command_class
from django.db import OperationalError, connection

from django_taskq import background, registry, tables
from django_taskq.compat import task_backends
from django_taskq.management.commands.runtaskworker import check_settings, make_settings, start_line
from django_taskq.models import TaskRecord
from django_taskq.worker.settings import Settings

PATH = "django_taskq.backend.RedisBackend"


def parse(*arguments):
    command = load_command_class("django_taskq", "runtaskworker")
    command._called_from_command_line = True
    return command.create_parser("manage.py", "runtaskworker").parse_args(arguments)


@pytest.mark.parametrize(
    ("flag", "most"), [("--processes", 1_000), ("--threads", 1_000), ("--coroutines", 100_000), ("--max-tasks", 10**15)]
)
def test_more_than_a_machine_bears_is_refused(flag, most, capsys):
    assert most in vars(parse(flag, str(most))).values()

    for text in [str(most + 1), "9" * 5000]:
        with pytest.raises(SystemExit) as caught:
            parse(flag, text)
        assert caught.value.code == 2
        assert f"is too many; at most {most}" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["0", "000", "-1", "1.5", "", "²", "many"])
def test_what_is_no_count_is_refused(text, capsys):
    with pytest.raises(SystemExit) as caught:
        parse("--threads", text)
    assert caught.value.code == 2


@pytest.fixture
def run(settings):
    """Give a function that tries to start a worker and returns why it can't."""

    def refused(*arguments, **entry):
        settings.TASKS = {"default": {"BACKEND": PATH, **entry}}
        with pytest.raises(CommandError) as caught:
            call_command("runtaskworker", *arguments, skip_checks=True)
        assert caught.value.returncode == 2
        return str(caught.value)

    return refused


@pytest.mark.parametrize(("name", "hint"), [("nope", ""), ("mial", " Did you mean 'mail'?")])
def test_a_queue_that_the_backend_does_not_have_is_refused(run, name, hint):
    text = run("-q", f"default,{name}", QUEUES=["default", "mail"])

    assert text == f"{name!r} isn't in QUEUES of TASKS['default'] (default, mail).{hint}"


def test_any_queue_may_be_served_where_the_backend_lists_none(run):
    assert "--exclude-queues" in run("-q", "nope", "-x", "nope", QUEUES=[])


@pytest.mark.parametrize("arguments", [["-q", "default", "-x", "default"], ["-x", "mail,default"]])
def test_a_worker_with_nothing_to_serve_is_refused(run, arguments):
    text = run(*arguments, QUEUES=["default"])

    assert text.startswith("No queue is left to serve of default: each is named by --exclude-queues")


def charge(order_id): ...
def render(order_id): ...


@pytest.fixture
def remote(monkeypatch, settings):
    """Give a project with a remote task in a queue of its own, and another beside a task that runs here."""
    monkeypatch.setattr(registry, "_declared", {})
    settings.TASKS = {"default": {"BACKEND": PATH, "QUEUES": ["default", "receipts"]}}
    background(name="labels", remote=True)(render)
    background(charge)
    background(name="receipts", queue_name="receipts", remote=True)(render)


@pytest.mark.parametrize(("arguments", "excluded"), [([], {"receipts"}), (["-q", "receipts"], set())])
def test_a_queue_of_remote_tasks_is_left_alone_unless_it_is_named(remote, arguments, excluded):
    made = make_settings(task_backends["default"], False, vars(parse(*arguments)))

    assert made.excluded == excluded
    shown = start_line(made, task_backends["default"])
    assert ("default (left to the programs that work on remote tasks: receipts). " in shown) == bool(excluded)


def test_a_worker_with_remote_tasks_only_is_refused_with_the_way_out(run, remote):
    text = run(QUEUES=["receipts"])

    assert text.startswith(
        "No queue is left to serve of receipts: each is named by --exclude-queues, or has only remote"
    )
    assert "--queues" in text


@pytest.mark.parametrize(
    ("queues", "excluded", "shown"),
    [
        (("mail", "default"), {"mail"}, "queues: default. "),
        ((), {"mail", "bulk"}, "queues: all that are used but bulk, mail. "),
        ((), set(), "queues: all that are used. "),
    ],
)
def test_the_start_line_names_what_is_served(queues, excluded, shown):
    line = start_line(Settings(name="w", queues=queues, excluded=frozenset(excluded)), task_backends["default"])

    assert shown in line


def test_the_start_line_names_redis_without_its_password(settings):
    options = {"url": "redis://app:topsecret@cache:6379/1", "namespace": "shop"}
    settings.TASKS = {"default": {"BACKEND": PATH, "OPTIONS": options}}

    line = start_line(Settings(name="w"), task_backends["default"])

    assert line.endswith("Redis: redis://***@cache:6379/1, namespace 'shop'")
    assert "secret" not in line


@pytest.mark.django_db
@pytest.mark.parametrize("records", ["finished", "outbox"])
def test_a_table_that_was_not_migrated_is_refused_with_the_command(run, records):
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {TaskRecord._meta.db_table} RENAME TO elsewhere")

    text = run(OPTIONS={"records": records})

    assert text.startswith("The database 'default' can't keep records: ")
    assert text.endswith("Run manage.py migrate django_taskq --database default")


def test_without_records_no_table_is_asked_for_and_a_database_that_is_away_is_waited_for(monkeypatch, settings):
    def away(alias):
        raise OperationalError("away")

    monkeypatch.setattr(tables, "table_problem", away)
    for records in ("none", "finished"):
        settings.TASKS = {"default": {"BACKEND": PATH, "OPTIONS": {"records": records}}}
        check_settings(Settings(name="w"), task_backends["default"])


def test_a_health_file_that_cannot_be_written_is_refused(run, tmp_path):
    (tmp_path / "file").touch()

    assert "No such file or directory" in run("--health-file", str(tmp_path / "missing" / "health"))
    assert "Not a directory" in run("--health-file", str(tmp_path / "file" / "health"))
    assert "is a folder" in run("--health-file", str(tmp_path))


def test_looking_whether_the_health_file_can_be_written_leaves_nothing(tmp_path):
    check_settings(Settings(name="w", health_file=tmp_path / "health"), task_backends["default"])

    assert [*tmp_path.iterdir()] == []
