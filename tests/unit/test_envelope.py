from __future__ import annotations

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_taskq.broker import envelope
from django_taskq.broker.envelope import Envelope, Form, Head, dump_json, head_lines, parse_task
from django_taskq.broker.exceptions import UnknownVersion, UnreadableRecord
from django_taskq.broker.records import Attempt, AttemptError
from django_taskq.broker.retry import RetryPolicy

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def test_an_envelope_of_defaults_holds_its_name_and_version_only():
    assert json.loads(Envelope("a.b").to_bytes()) == {"v": 1, "name": "a.b"}


def test_every_field_comes_back():
    full = Envelope(
        name="x",
        args=[1, [2.5, None], {}, []],
        kwargs={"é": "\u2028"},
        run_after=1_700_000_000_123,
        max_attempts=7,
        backoff=RetryPolicy(2, 3, 50, "full"),
        timeout_ms=1500,
        result_ttl_ms=0,
        meta={"path": "a.b"},
    )
    assert Envelope.from_bytes(full.to_bytes()) == full


@given(args=st.lists(json_values), kwargs=st.dictionaries(st.text(), json_values))
def test_arguments_come_back_equal(args, kwargs):
    found = Envelope.from_bytes(Envelope("x", args=args, kwargs=kwargs).to_bytes())
    assert (found.args, found.kwargs) == (args, kwargs)


@given(json_values)
def test_json_is_written_alike_on_every_python(value):
    with pytest.MonkeyPatch.context() as patch:
        written = dump_json(value)
        patch.setattr(envelope, "_write", None)
        assert written == dump_json(value)


def test_numbers_keep_all_their_digits():
    numbers = [123456789012345, 2**53 + 1, 2**63 - 1, -0.0, 0.1 + 0.2, 1e21, 5e-324, 10**400]
    found = Envelope.from_bytes(Envelope("x", args=numbers).to_bytes()).args
    assert [repr(number) for number in found] == [repr(number) for number in numbers]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800", b"x", {1, 2}, object()])
def test_what_json_cannot_carry_is_refused(value):
    with pytest.raises((TypeError, ValueError)):
        dump_json({"args": [value]})


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe",
        b"nul",
        b"[]",
        b"5",
        b"{}",
        b'{"name":""}',
        b'{"name":5}',
        b'{"name":"x","args":{}}',
        b'{"name":"x","kwargs":[]}',
        b'{"name":"x","max_attempts":0}',
        b'{"name":"x","max_attempts":true}',
        b'{"name":"x","max_attempts":1.5}',
        b'{"name":"x","timeout_ms":0}',
        b'{"name":"x","result_ttl_ms":-1}',
        b'{"name":"x","backoff":5}',
        b'{"name":"x","backoff":{"base":-1}}',
        b'{"name":"x","backoff":{"bse":1}}',
        b'{"name":"x","backoff":{"base":"1"}}',
        b'{"name":"x","run_after":"now"}',
        b'{"name":"x","meta":[]}',
        b'{"name":"x","args":[NaN]}',
        b'{"name":"x","kwargs":{"a":[-Infinity]}}',
        b'{"name":"x","later": Infinity }',
        b"[" * 100_000,
        b'{"name":"x","run_after":' + b"9" * 5000 + b"}",
    ],
    ids=lambda data: repr(data[:40]),
)
def test_what_is_no_envelope_is_unreadable_with_a_reason(data):
    with pytest.raises(UnreadableRecord, match=r"\w"):
        Envelope.from_bytes(data)


@pytest.mark.parametrize("version", [2, "1", None, 0, [], 1.5])
def test_another_version_is_told_apart(version):
    data = json.dumps({"v": version, "name": "x", "later": 1}).encode()
    with pytest.raises(UnknownVersion):
        Envelope.from_bytes(data)


def test_null_stands_for_the_default_and_unknown_fields_are_left():
    assert Envelope.from_bytes(b'{"name":"x","timeout_ms":null,"later":[1]}') == Envelope("x")


def task(lines="", envelope=b"{}", first="5 -3 a b"):
    return f"{first}\n{lines}\n".encode() + envelope


def test_a_head_comes_back():
    lines = head_lines("k y", 7, "default")
    head, envelope = parse_task(task(lines, b'{"a":"\n\n"}'))
    assert head == Head(5, -3, "a b", "k y", 7, "default")
    assert envelope == b'{"a":"\n\n"}'


def test_a_head_without_further_lines():
    assert parse_task(task()) == (Head(5, -3, "a b"), b"{}")
    assert head_lines(None, 5, None) == ""


def test_lines_that_nobody_knows_are_left():
    head, _ = parse_task(task("unique 5 x\nrecord other\nbatch\n"))
    assert head == Head(5, -3, "a b", record_alias="other")


@pytest.mark.parametrize("data", [b"", b"x", b"5 -3 q\n{}", b"a b c\n\n{}", b"5 q\n\n", b"\xff 1 q\n\n{}", b"\n\n"])
def test_of_an_unreadable_head_the_queue_is_the_caller_s_and_all_bytes_stay(data):
    assert parse_task(data, "q") == (Head(0, 0, "q"), data)


class TestLog:
    def line(self, json_text=b'{"result":1}', first="3 17 5 6 w.c"):
        return f"{first} ".encode() + json_text

    def test_a_result_comes_back(self):
        assert Attempt.from_line(self.line(b'{"result":[1,2]}')) == Attempt(3, 17, 5, 6, "w.c", None, [1, 2])

    def test_no_result_is_none(self):
        assert Attempt.from_line(self.line(b"{}")).result is None

    def test_an_error_comes_back(self):
        error = AttemptError("a.B", "message\n", "trace back", "lease expired")
        assert Attempt.from_line(self.line(error.to_json())).error == error

    @pytest.mark.parametrize(
        "line", [b"", b"x", b"a b c d e {}", b"1 2 3 4 c [1]", b"1 2 3 4 c {", b"\xff", b"1 2 3 4 c 5"]
    )
    def test_a_line_that_cannot_be_read_is_an_unreadable_error(self, line):
        assert Attempt.from_line(line).error.reason == "unreadable"

    def test_long_texts_are_cut_in_the_middle(self):
        error = AttemptError("a.B", "m" * 200_000, "ü" * 200_000)
        found = Attempt.from_line(self.line(error.to_json())).error
        assert len(found.message) < 66_000
        assert "bytes cut" in found.message
        assert found.traceback.startswith("üü")
        assert found.traceback.endswith("üü")

    def test_a_lone_surrogate_is_shown_not_raised(self):
        assert "\\ud800" in Attempt.from_line(self.line(AttemptError("a.B", "x\ud800").to_json())).error.message


def test_reading_needs_no_deeper_stack_than_there_is():
    limit = sys.getrecursionlimit()
    nested = b'{"name":"x","args":' + b"[" * limit * 50 + b"]" * limit * 50 + b"}"
    with pytest.raises(UnreadableRecord):
        Envelope.from_bytes(nested)


@pytest.mark.parametrize("name", ["result_ttl_ms", "timeout_ms"])
def test_a_time_that_nobody_can_count_is_cut(name):
    far = b'{"name":"x","%s":1%s}' % (name.encode(), b"0" * 400)
    assert getattr(Envelope.from_bytes(far), name) == 10**13


@given(args=st.lists(json_values), kwargs=st.dictionaries(st.text(), json_values))
def test_a_form_that_is_filled_in_is_the_envelope(args, kwargs):
    blank = {"name": 'é"x', "max_attempts": 7, "run_after": 5, "meta": {"path": "a.b"}}
    form = Form.of(Envelope(**blank))
    assert form.filled(args, kwargs) == Envelope(**blank, args=args, kwargs=kwargs).to_bytes()
