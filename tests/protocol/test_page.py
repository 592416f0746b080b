"""The contract for authors of clients says what the code does: its tables are compared with the scripts and modules."""

from __future__ import annotations

import inspect
import json
import re
from dataclasses import fields
from types import SimpleNamespace

import pytest

from django_taskq import conf, execution, policy
from django_taskq.broker import broker, failures, keys, records, retry, scripts
from django_taskq.broker.envelope import LONGEST_MS, VERSION, Envelope
from django_taskq.broker.records import State
from django_taskq.conf import Options
from django_taskq.worker import exceptions, waiter
from django_taskq.worker.report import Report
from django_taskq.worker.settings import Settings
from django_taskq.worker.supervisor import Phase
from tests.protocol.vectors import MADE, PATH, VECTORS

PAGE = PATH.with_name("protocol.md").read_text()
PACKAGE = scripts.FOLDER.parent
PLAIN = " ".join(PAGE.split())
OPTIONS = Options()
LUA = "".join(path.read_text() for path in scripts.FOLDER.glob("*.lua"))
PATTERNS = (r"LOG_LENGTH = (\d+)", r"LAST_BYTE = '(\d+)'", r"DAY = \d+, (\d+)")
LOG_LENGTH, LAST_BYTE, DAY = (int(re.search(pattern, LUA)[1]) for pattern in PATTERNS)


def table(first, of=PAGE):
    """Return the cells of the table whose head begins so, without that head."""
    lines = of[of.index(f"\n| {first} |") :].split("\n\n")[0].strip().splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def quoted(cell):
    return re.findall(r"`([^`]+)`", cell)


def words(text):
    """Return the words of a text that scripts answer."""
    return {word for word in re.findall(r"\b[A-Z]+(?:_[A-Z]+)?\b", text) if word in ALL_WORDS}


ALL_WORDS = {word for row in table("word") for word in row[0].split(", ")}
SCRIPTS = {row[0].strip("`"): row[1:] for row in table("script")}


def header(name):
    """Return the ARGV and the replies that stand at the head of a script."""
    lines = (scripts.FOLDER / f"{name}.lua").read_text().split("\n")
    text = "\n".join(line.removeprefix("-- ") for line in lines[: lines.index("-- KEYS[1] {ns}:queues") + 9])
    found = re.search(r"\nARGV +(.*?)\nReturns (.*?)(?=\n@include|\nlocal |\n\n)", text, re.DOTALL)
    return [" ".join(part.replace("--", " ").split()) for part in found.groups()]


def answered(name):
    """Return the words that stand in a composed script as answers, not as names of commands."""
    code = re.sub(r"--[^\n]*|(?:p?call|list)\('[A-Z]+'", "", scripts.load(name).text)
    return words(" ".join(re.findall(r"'([A-Z_]+)'", code)))


def test_the_scripts_are_all_listed():
    assert sorted(SCRIPTS) == scripts.names()


@pytest.mark.parametrize("name", scripts.names())
def test_a_script_takes_what_the_page_says(name):
    assert SCRIPTS[name][0].replace("`", "") == header(name)[0].replace("`", "")


@pytest.mark.parametrize("name", scripts.names())
def test_a_script_answers_with_the_words_of_the_page(name):
    assert words(SCRIPTS[name][1]) == words(header(name)[1])
    assert words(SCRIPTS[name][1]) <= answered(name)


def test_each_word_is_explained_and_answered_by_a_script():
    listed = {word for _, reply in SCRIPTS.values() for word in words(reply)}
    assert listed == ALL_WORDS == {word for name in scripts.names() for word in answered(name)}


def test_the_script_of_a_word_answers_with_it():
    settling = ["complete", "retry", "bury", "release"]
    for said, of, *_ in table("word"):
        for name in quoted(of) or settling:
            if name in SCRIPTS:
                assert words(said) <= words(SCRIPTS[name][1]), (said, name)
        for name, (_, reply) in SCRIPTS.items():
            if words(said) & words(reply):
                everywhere = {row[1] for row in table("word") if words(row[0]) & words(said)}
                named = {each for cell in everywhere for each in (quoted(cell) or settling)}
                assert name in named or any("others" in cell for cell in everywhere), (said, name)


def test_the_keys_are_those_of_the_data_model():
    model = re.findall(r"^``(\{ns\}:[^`]+)`` +(\w+) ", keys.__doc__, re.MULTILINE)
    kinds = {"sorted set": "ZSET"}
    listed = [(quoted(row[0])[0], kinds.get(row[1], row[1].upper())) for row in table("key")]
    assert [(key.replace("{taskq}", "{ns}").replace("<queue>", "<q>"), kind) for key, kind in listed] == model


def test_the_fields_of_a_run_are_those_that_scripts_write():
    written = re.findall(r"call\('H(?:SET|DEL)', RUN \.\. id,(.*?)\)\n", LUA, re.DOTALL)
    found = set(re.findall(r"'([a-z_]+)'", " ".join(written))) - {*State}
    run = PAGE[PAGE.index("The run hash.") :]
    assert {field for row in table("field", run) for field in quoted(row[0])} == found


def test_the_states_are_those_of_records():
    run = PAGE[PAGE.index("The run hash.") :]
    assert quoted(table("field", run)[0][1]) == [*State]


def test_the_envelope_has_the_fields_and_defaults_of_the_page():
    rows = table("field", PAGE[PAGE.index("**The envelope**") :])
    assert [row[0].strip("`") for row in rows] == ["v", *(field.name for field in fields(Envelope))]
    plain = Envelope("t")
    defaults = {"v": VERSION, "name": None} | {name: getattr(plain, name) for name in plain.__dict__ if name != "name"}
    defaults["backoff"] = plain.backoff.to_dict()
    assert {row[0].strip("`"): json.loads(row[2].strip("`") or "null") for row in rows} == defaults
    kinds = {"string": str, "array": list, "object": dict, "integer": int}
    assert all(isinstance(defaults[row[0].strip("`")], kinds[row[1]] | None) for row in rows)


def test_the_fields_are_written_in_the_order_of_the_page():
    policy_of_ones = retry.RetryPolicy(1, 1, 1, "none")
    full = Envelope("t", [1], {"a": 1}, 1, 1, policy_of_ones, 1, 1, "default", {"a": 1})
    rows = table("field", PAGE[PAGE.index("**The envelope**") :])
    assert list(json.loads(full.to_bytes())) == [row[0].strip("`") for row in rows]


def test_the_presence_has_the_fields_of_the_page():
    report = Report(Settings(name="w"), SimpleNamespace(children=[], boards=[]), [])
    rows = table("field", PAGE[PAGE.index("### Presence") :])
    assert {field for row in rows for field in quoted(row[0])} == {"seen_at", *report.presence()}
    phases = next(row[1] for row in rows if row[0] == "`phase`")
    assert quoted(phases) == [phase.value for phase in Phase]


def test_the_codes_of_errors_are_those_that_are_looked_for():
    rows = table("Redis says, or doesn't")
    assert {*quoted(rows[0][0])} == failures._UNAVAILABLE
    assert {*quoted(rows[1][0])} == failures._REFUSED
    assert {*quoted(rows[0][1])} == failures._DEMOTED


def test_the_reasons_are_those_that_the_package_gives():
    listed = {reason for row in table("reason") for reason in quoted(row[0])}
    source = "".join(path.read_text() for path in PACKAGE.rglob("*.py"))
    assert all(f'"{reason}"' in source for reason in listed)
    given = {vars(kind).get("reason") for _, kind in inspect.getmembers(exceptions, inspect.isclass)}
    assert {reason for reason in given if isinstance(reason, str) and reason} <= listed


@pytest.mark.parametrize(
    "sentence",
    [
        f"`lease_ms` is from {conf.MIN_LEASE * 1000:.0f} to {conf.MAX_LEASE * 1000:,}, and {OPTIONS.lease_ms:,} unless",
        f"`max_payload_bytes` ({OPTIONS.max_payload_bytes:,}, unless",
        f"`unknown_ttl` ({OPTIONS.unknown_ttl_ms:,} ms, unless",
        f"{execution.UNKNOWN_STEP_MS:,} ms · (releases + 1), {execution.UNKNOWN_CAP_MS:,} at most",
        f"more than {records.ERROR_BYTES:,} bytes is cut",
        f"first and last {records.ERROR_BYTES // 2:,} bytes",
        f"at most {broker.BATCH_RECORDS:,} records, or {broker.BATCH_BYTES // 2**20} MiB",
        f"are from 0 to {retry.LONGEST_DELAY:,} (a hundred years)",
        f"cap if n > {retry._LARGEST_EXPONENT}",
        f"for {waiter.WAIT_SECONDS:.0f} seconds at most",
        f"`expired`, {inspect.signature(broker.Broker.expired).parameters['limit'].default} at once",
        f"more than 10^{len(str(LONGEST_MS)) - 1} is 10^{len(str(LONGEST_MS)) - 1}",
        f"| namespace, queue | {keys.NAME_BYTES} |",
        f"| worker | {keys.NAME_BYTES} |",
        f"| child | {keys.CHILD_BYTES} |",
        f"| idempotency key | {keys.KEY_BYTES} |",
        f"| task | {policy.MAX_NAME_LENGTH} characters |",
        f"an integer from -{keys.LARGEST_PRIORITY} to {keys.LARGEST_PRIORITY}",
        f"its last {LOG_LENGTH} ended attempts",
        f"within the first {LAST_BYTE + 1} bytes",
        f"more than {DAY // 3_600_000} hours from now",
    ],
)
def test_a_number_is_the_code_s(sentence):
    assert sentence in PLAIN


def test_the_names_of_the_scripts_for_redis_are_those_of_the_vectors():
    assert VECTORS["scripts"] == {name: scripts.load(name).sha for name in scripts.names()}


def test_what_the_vectors_hold_is_described():
    assert {quoted(row[0])[0] for row in table("section")} == set(VECTORS) - {"version"}
    described = {name for row in table("name", PAGE[PAGE.index("## Golden vectors") :]) for name in quoted(row[0])}
    assert described == {*MADE, "hex"}
