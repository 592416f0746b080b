"""How the Lua scripts are composed, and what none of them may use."""

from __future__ import annotations

import re

import pytest

from django_taskq.broker import scripts

NAMES = scripts.names()
PIECES = sorted(path.stem for path in scripts.FOLDER.glob("_*.lua"))


def text_of(name):
    return (scripts.FOLDER / f"{name}.lua").read_text()


def code_of(name):
    return re.sub(r"--[^\n]*", "", text_of(name))


def test_the_transitions_are_those_of_the_protocol():
    verbs = {"enqueue", "claim", "renew", "complete", "retry", "bury", "release", "expired", "promote", "requeue"}
    assert verbs | {"cancel", "discard", "heartbeat", "read"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_script_holds_each_piece_once_and_above_what_uses_it(name):
    text = scripts.load(name).text
    assert "@include" not in text
    for piece in PIECES:
        first_line = text_of(piece).split("\n", 1)[0]
        marker = first_line if not first_line.startswith("-- @include") else text_of(piece).split("\n")[1]
        assert text.count(marker) <= 1
    defined = set()
    for line in text.splitlines():
        used = set(re.findall(r"\b(\w+)\(", re.sub(r"--.*|'[^']*'", "", line)))
        made = set(re.findall(r"local function (\w+)", line))
        assert not (used & functions_of_pieces()) - defined - made, line
        defined |= made


def functions_of_pieces():
    return {found for piece in PIECES for found in re.findall(r"^local function (\w+)", text_of(piece), re.MULTILINE)}


@pytest.mark.parametrize("name", NAMES)
def test_a_script_starts_by_saying_what_it_takes_and_returns(name):
    lines = text_of(name).splitlines()
    assert lines[0].startswith(f"-- {name}: ")
    assert lines[0].endswith((".", ";", ",")) or lines[1].startswith("-- ")
    comments = lines[: next(index for index, line in enumerate(lines) if not line.startswith("--"))]
    header = "\n".join(comments)
    assert "\n-- KEYS[1] {ns}:queues\n" in header
    assert re.search(r"\n-- ARGV +\S", header)
    assert re.search(r"\n-- Returns \S", header)


@pytest.mark.parametrize("name", [*NAMES, *PIECES])
def test_a_script_is_plain_lua_that_every_server_runs(name):
    code = code_of(name)
    assert not text_of(name).startswith("#!")
    for forbidden in ("cjson", "cmsgpack", "struct.", "bit.", "sha1hex", "redis.log", "setresp", "goto "):
        assert forbidden not in code
    # An assignment to a global is an error on a server, and none on fakeredis.
    assert not re.findall(r"^(?!local |  |end|for |if |return|else)(\w+)\s*=[^=]", code, re.MULTILINE)
    assert not re.findall(r"^\s*function \w", code, re.MULTILINE)


@pytest.mark.parametrize("name", [*NAMES, *PIECES])
def test_a_score_never_goes_through_a_string(name):
    """Lua's `..` keeps 14 digits, and a score has up to 16."""
    for line in code_of(name).splitlines():
        assert not re.search(r"(\.\.\s*\w*score\b|\bscore\s*\.\.|1e13[^,)]*\.\.|tostring)", line), line


@pytest.mark.parametrize("name", [*NAMES, *PIECES])
def test_an_id_leaves_its_set_after_its_record_was_read(name):
    assert not re.search(r"ZPOP|ZMPOP|SPOP|LPOP", code_of(name))


@pytest.mark.parametrize("name", [*NAMES, *PIECES])
def test_no_script_deletes_a_run_or_scans(name):
    code = code_of(name)
    assert not re.search(r"'(DEL|UNLINK)', (RUN|TASK|LOG)", code)
    assert not re.search(r"'(KEYS|SCAN|FLUSHALL|FLUSHDB|CONFIG|DEBUG)'", code)
    # Where a server refuses it, nothing else fails.
    assert code.replace("pcall('INFO', 'server')", "").count("'INFO'") == 0


def test_the_name_is_the_one_that_redis_gives_it(server):
    for name in NAMES:
        script = scripts.load(name)
        sha = server.client.script_load(script.text)
        assert (sha if isinstance(sha, str) else sha.decode()) == script.sha


def test_a_script_is_composed_once():
    assert scripts.load("claim") is scripts.load("claim")
