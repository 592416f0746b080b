"""Whatever a task returns or raises, its row is written, and is read back as it was where that is possible."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from django.db import OperationalError, connections

from django_taskq import writing
from django_taskq.broker.records import ERROR_BYTES, AttemptError
from django_taskq.rows import to_result
from django_taskq.worker.endings import NotRecorded
from django_taskq.writing import write_finished

from .conftest import ALIAS, configured, on_each
from .jobs import ODD_TEXTS
from .made import NOON, failed, lease, row, stored, succeeded

ERROR = AttemptError("builtins.OSError", "no", "Traceback: no")
UNREADABLE = {
    "nothing": b"\n",
    "NUL": b"\0",
    "no UTF-8": b"\xff\xfe\n\n{}",
    "a surrogate in bytes": f"{NOON} 0 mail\n\n".encode() + b'{"name":"a\xed\xa0\x80"}',
    "no head": b"no head",
    "a moment beyond time": b"9" * 400 + b" 0 q\n\n{}",
}


@on_each()
def test_odd_text_in_a_result_is_read_back(database):
    endings = {text: succeeded(lease(), {"text": [text]}) for text in ODD_TEXTS.values()}
    write_finished([row(ending) for ending in endings.values()])
    for text, ending in endings.items():
        assert to_result(stored(ending.lease)).return_value == {"text": [text]}


@on_each()
def test_odd_text_in_an_error_is_kept(database):
    endings = {
        text: failed(lease(), AttemptError("app.Odd", text, f"Traceback: {text}", text)) for text in ODD_TEXTS.values()
    }
    write_finished([row(ending) for ending in endings.values()])
    for text, ending in endings.items():
        (error,) = to_result(stored(ending.lease)).errors
        kept = error.traceback.removeprefix("Traceback: ")
        if len(text) < ERROR_BYTES:
            assert kept.encode() == text.encode("utf-8", "backslashreplace")
        else:
            assert "bytes cut]" in kept
            assert kept.endswith("é")


@on_each()
def test_odd_text_in_a_key_is_kept_as_far_as_it_fits(database):
    heads = [f"{NOON} 0 mail\nkey 1000 {text}\n\n".encode("utf-8", "surrogatepass") for text in ODD_TEXTS.values()]
    endings = [succeeded(lease(task=head + b'{"name":"x"}')) for head in heads]
    write_finished([row(ending) for ending in endings])
    assert all(len(stored(ending.lease).idempotency_key) <= 255 for ending in endings)


@on_each()
def test_c79_markup_and_odd_names_are_kept_as_they_are(database):
    names = ["<script>alert(1)</script>", "\u202eevil\u202c", "javascript:alert(1)", "🚀", "a' OR 1=1 --", "%s%(x)s"]
    endings = []
    for name in names:
        head = f"{NOON} 0 {name}\nkey 1000 {name}\n\n".encode()
        endings.append(replace(failed(lease(task=head + json.dumps({"name": name}).encode()), ERROR), child=name))
    write_finished([row(ending) for ending in endings])
    for name, ending in zip(names, endings, strict=True):
        found = stored(ending.lease)
        assert {found.task, found.queue, found.idempotency_key, found.worker} == {name}


@on_each()
def test_a_record_that_cannot_be_read_has_its_row(database):
    error = AttemptError("django_taskq.UnreadableRecord", "bad")
    endings = [failed(lease(task=task), error) for task in UNREADABLE.values()]
    write_finished([row(ending) for ending in endings])
    for ending in endings:
        result = to_result(stored(ending.lease))
        assert (result.status, len(result.errors)) == ("FAILED", 1)


@on_each()
def test_numbers_that_no_column_holds_are_brought_within_bounds(database):
    held = lease(task=f"{10**17} {10**9} mail\n\n".encode() + b'{"name":"x"}', attempt=2**40)
    write_finished([row(succeeded(held))])
    found = stored(held)
    assert (found.priority, found.attempts, found.enqueued_at.year) == (2**15 - 1, 2**31 - 1, 9999)
    found.attempts = 1
    assert to_result(found).enqueued_at == found.enqueued_at


@pytest.fixture
def narrow(request, engine, database):
    """Send rows to a database that knows fewer characters than there are."""
    server = engine(request.param)
    create = {
        "postgresql": "CREATE DATABASE narrow ENCODING LATIN1 LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0",
        "mariadb": "CREATE DATABASE narrow CHARACTER SET latin1",
    }
    server.run(create[request.param])
    connections[ALIAS].close()
    del connections[ALIAS]
    connections.settings[ALIAS] = configured(server.settings("narrow"))
    from django.core.management import call_command

    call_command("migrate", "django_taskq", database=ALIAS, verbosity=0)
    yield
    connections[ALIAS].close()
    server.run("DROP DATABASE narrow")


@pytest.mark.parametrize("narrow", ["postgresql", "mariadb"], indirect=True)
def test_what_a_database_has_no_characters_for_is_kept_in_ascii(narrow, caplog):
    endings = [succeeded(lease(args=["🚀"]), {"é": "🚀 ✓"}), failed(lease(), AttemptError("x", "🚀", "🚀"))]
    write_finished([row(each) for each in [*endings, succeeded(lease(), "plain")]])
    first, second = (to_result(stored(each.lease)) for each in endings)
    assert (first.args, first.return_value) == (["🚀"], {"é": "🚀 ✓"})
    assert second.errors[0].traceback == "🚀"
    assert caplog.text.count("so it is kept in ASCII") == 2


@pytest.fixture
def small_packets(engine):
    """Let MariaDB take no statement of more than 256 KiB."""
    server = engine("mariadb")
    server.run("SET GLOBAL max_allowed_packet = 262144")
    yield
    server.run("SET GLOBAL max_allowed_packet = 16777216")


@on_each("mariadb")
def test_a_row_that_the_server_has_no_room_for_is_kept_without_its_texts(small_packets, database, caplog):
    large, small = lease(), lease(args=["x"])
    error = AttemptError("builtins.ValueError", "m" * 60_000, "é" * 32_000)
    lost = failed(lease(args=["é" * 300_000]), error)
    write_finished([row(each) for each in (succeeded(large, "é" * 300_000), succeeded(small), lost)])
    assert (stored(large).status, stored(large).result) == ("succeeded", "")
    assert to_result(stored(small)).return_value == 3
    kept = json.loads(stored(lost.lease).history)[0]
    assert (kept["error"], len(kept["message"])) == ("builtins.ValueError", 1000)
    assert caplog.text.count("so it is kept without its texts") == 2


@on_each()
@pytest.mark.parametrize("failures", [1, 2, 3])
def test_a_database_that_takes_rows_again_in_between_gets_them_whole(database, monkeypatch, failures):
    upsert, calls = writing.upsert, iter(range(100))

    def failing(*args, **kwargs):
        if next(calls) < failures:
            raise OperationalError("away for a moment")
        upsert(*args, **kwargs)

    monkeypatch.setattr(writing, "upsert", failing)
    ending = succeeded(lease(), "whole")
    try:
        write_finished([row(ending)])
    except NotRecorded:
        write_finished([row(ending)])
    assert to_result(stored(ending.lease)).return_value == "whole"
