"""Cases of the casebook that cross the border; `test_c45_...` is case 45.

More of C45, C46 and C55: test_hops.py and test_fuzz.py.
"""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

from django_taskq.broker import keys
from django_taskq.broker.envelope import dump_json
from django_taskq.broker.exceptions import InvalidName
from django_taskq.broker.retry import RetryPolicy
from tests.app.admin import VIEW, client_of, letter_url, messages_of
from tests.app.test_admin_actions import confirm_selected, send
from tests.broker.helpers import HOUR, envelope, put, read, record
from tests.node import tasks
from tests.node.processes import Refused
from tests.node.values import nested, seed_of_run
from tests.rules import check_rules
from tests.waiting import wait_until

NUMBERS = {
    "0": ("number", "0"),
    "123456789012345": ("number", "123456789012345"),
    "9007199254740991": ("number", "9007199254740991"),
    "9007199254740992": ("bigint", "9007199254740992"),
    "9007199254740993": ("bigint", "9007199254740993"),
    "-9007199254740993": ("bigint", "-9007199254740993"),
    "9223372036854775807": ("bigint", "9223372036854775807"),
    "-0.0": ("number", "-0"),
    "0.30000000000000004": ("number", "0.30000000000000004"),
    "1e+21": ("number", "1e+21"),
    "5e-324": ("number", "5e-324"),
    "1.7976931348623157e+308": ("number", "1.7976931348623157e+308"),
}


@pytest.mark.parametrize("exact", [False, True])
def test_c45_node_sees_the_numbers_that_python_sent_and_none_is_rounded(broker, start_node, ended, exact):
    (record_id,) = put(
        broker, queue="default", envelope=envelope("border.describe", args=list(map(json.loads, NUMBERS)))
    )
    start_node(options={"exact": exact})

    (record,) = ended(record_id)

    assert dict(zip(NUMBERS, map(tuple, record.result), strict=True)) == NUMBERS


def reason_of(value):
    """Return why Python refuses to enqueue a value, under the name that the task has in the queue."""
    with pytest.raises((TypeError, ValueError)) as refused:
        tasks.work.enqueue(1, {"deep": [value]})
    return str(refused.value).replace("work: ", "border.work: ")


def test_c46_what_json_can_not_carry_is_refused_by_both_and_nothing_is_stored(hand, redis_client):
    itself = []
    itself.append({"again": itself})
    values = {"nan": float("nan"), "infinity": float("inf"), "negative": float("-inf"), "surrogate": "\ud800x"}
    values |= {"long": 10**4300, "deep": nested(2000), "itself": itself}
    theirs = hand.ask("refuse")

    for name, value in values.items():
        assert theirs.pop(name) == reason_of(value)
    # The others are of JavaScript only.
    place = "border.work: args[1]['deep'][0]"
    assert len(theirs) == 12
    for name, reason in theirs.items():
        assert reason.startswith(f"Unsupported type: {place}"), (name, reason)
    assert theirs["hole"].startswith(f"Unsupported type: {place}[0] is undefined")
    assert theirs["undefined"] == f"Unsupported type: {place} is undefined, which JSON can't carry: pass null."
    assert theirs["date"] == f"Unsupported type: {place} is a Date, which JSON can't carry: pass its toISOString()."
    assert theirs["key"] == f"Unsupported type: {place} has the key 1, and JSON has only strings as keys."
    assert redis_client.dbsize() == 0


NAMES = [
    *(
        "dlq", "default:leases", "a}b", "{", "", " ", "a b", "x" * 300, "x" * 100, "x" * 101, "a\nb", "a\x00", "\x7f",
        "\x85",
    ),
    *(
        "*", "é" * 50, "é" * 51, "😀" * 25, "😀" * 26, "naïve 語", "\ud800", "it's", 'say "so"', 'it\'s "so"', "\\",
        None, 1, 1.5,
    ),
    *(True, [], {}, ["a"], "mail:ready", "wake", "__proto__", "\u2028", "\u200b", "\xa0"),
]  # fmt: skip

CHECKS = {
    "checkNamespace": keys.check_namespace,
    "checkQueueName": keys.check_queue_name,
    "checkWorkerName": keys.check_worker_name,
    "checkIdempotencyKey": keys.check_idempotency_key,
    "checkId": keys.check_id,
    "checkPriority": keys.check_priority,
}


def answer_of(check, *arguments, **named):
    """Return what a check answers, or the words with which it refuses a name."""
    try:
        return check(*arguments, **named)
    except InvalidName as error:
        return str(error)
    except Refused as refused:
        assert refused.kind == "InvalidName", refused  # noqa: PT017
        return refused.message


@pytest.mark.parametrize("check", CHECKS)
def test_c54_names_are_refused_by_one_rule_with_the_same_words(hand, check):
    for value in [*NAMES, 0, 100, 101, -100, -101, 2**40, "01M8NATD10B", "0" * 63, "0" * 64]:
        assert answer_of(hand.ask, "check", name=check, value=value) == answer_of(CHECKS[check], value), value


def test_c54_a_queue_of_an_odd_name_is_one_queue_for_both_and_no_key_leaves_the_prefix(
    hand, start_node, start_python, ended, inspector, redis_client
):
    names = ["naïve 語", "dlq", "__proto__", "😀", "it's", "wake", "a/b"]

    def enqueue(queue, number):
        options = {"queue": queue, "idempotencyKey": f"{{x}}:*{number}"}
        return answer_of(hand.ask, "enqueue", name="border.work", args="[1]", options=options)

    there = [enqueue(name, number)["id"] for number, name in enumerate(names)]
    here = [tasks.work.using(queue_name=name).enqueue(1).id for name in names]
    for name in ("a}b", "a:b", "*", ""):
        assert enqueue(name, 0) == answer_of(keys.check_queue_name, name)
    assert inspector.queues() == sorted(names)
    start_node(queues=names[::2])
    start_python("python", "-q", ",".join(names[1::2]))

    records = ended(*there, *here)

    check_rules(records)
    assert {record.state for record in records} == {"succeeded"}
    assert [record.result["by"] for record in records] == [*(["node", "python"] * 4)[:7]] * 2
    assert all(key.startswith(b"{taskq}:") for key in redis_client.scan_iter())


def test_c55_arguments_are_refused_at_the_same_size_with_the_same_words(start_hand, settings):
    most = 1000
    tasks_setting = settings.TASKS["default"]
    options = {**tasks_setting["OPTIONS"], "max_payload_bytes": most}
    settings.TASKS = {"default": {**tasks_setting, "OPTIONS": options}}
    hand = start_hand(maxPayloadBytes=most)
    room = most - len(envelope("border.node_only", args=[""], backoff=RetryPolicy(**tasks.SOON)))

    def send(text):
        args = dump_json([text]).decode()
        return hand.ask("enqueue", name="border.node_only", args=args, options={"backoff": tasks.SOON})["word"]

    for text in ("x" * room, "é" * (room // 2)):
        assert send(text) == "STORED"
        assert tasks.node_only.enqueue(text).id
    for text in ("x" * (room + 1), "é" * (room // 2 + 1), "\x00" * room):
        with pytest.raises(Refused) as theirs:
            send(text)
        with pytest.raises(ValueError, match=r"the arguments take \d+ bytes") as ours:
            tasks.node_only.enqueue(text)
        assert theirs.value.message == str(ours.value)


def test_c55_a_result_that_is_too_large_is_a_failed_attempt_that_says_so(broker, start_node, start_python, ended, hand):
    most = 2000
    room = most - len('{"result":""}')
    start_node(queues=["node"], options={"maxPayloadBytes": most})
    start_python("python", "-q", "python", options={"max_payload_bytes": most})
    document = [envelope("border.give", args=[size], max_attempts=1) for size in (room, room + 1)]
    kept, refused = (
        ended(*(put(broker, queue=queue, envelope=text)[0] for queue in ("node", "python"))) for text in document
    )

    assert {(record.state, len(record.result)) for record in kept} == {("succeeded", room)}
    assert {(record.state, record.attempts) for record in refused} == {("dead", 1)}
    node, python = (record.history[0].error for record in refused)
    assert node.message == python.message.replace("of give", "of border.give")
    assert f"takes {most + 1} bytes" in node.message


def test_c46_half_a_character_in_a_result_is_written_out_and_does_not_undo_the_task(
    broker, start_node, start_python, ended
):
    start_node(queues=["node"])
    start_python("python", "-q", "python")
    ids = [put(broker, queue=queue, envelope=envelope("border.give_half"))[0] for queue in ("node", "python")]

    assert [record.result for record in ended(*ids)] == [["😀", "\\udc80"]] * 2


def test_c63_both_wait_for_the_same_time_between_attempts(hand):
    draw = random.Random(seed_of_run())
    cases = [
        (draw.choice([1, 2, 3, 5, 10, 40, 59, 60, 61, 100, 10**6]), draw.random(), drawn_policy(draw))
        for _ in range(5000)
    ]
    cases += [(attempt, chance, policy) for attempt in (1, 2, 61) for chance in (0, 1) for policy in (0, 2.0005, 1e-9)]

    ours = [RetryPolicy.parse(policy).delay_ms(attempt, chance) for attempt, chance, policy in cases]

    assert hand.ask("delays", cases=cases) == ours
    assert len(set(ours)) > 1000


def drawn_policy(draw):
    return {
        "base": draw.choice([0, 0.001, 0.0125, 0.5, 1, 2, 7.3, 3600, 3_155_760_000]),
        "factor": draw.choice([0, 0.5, 1, 1.1, 2, 3, 10, 1e300]),
        # Of a power that isn't exact the last bit may differ, which is seen in delays of many years only.
        "cap": draw.choice([0, 0.0005, 1, 60, 300.5, 86_400]),
        "jitter": draw.choice(["none", "equal", "full"]),
    }


def test_c63_delays_of_a_storm_of_failures_in_node_are_spread_and_a_wish_is_honoured(
    broker, start_node, ended, inspector
):
    policy = RetryPolicy(base=20, cap=60)
    storm = put(broker, 200, queue="default", envelope=envelope("border.work", args=[0, 9], backoff=policy))
    (wish,) = put(broker, queue="default", envelope=envelope("border.retry_after", args=[0.2], backoff=policy))
    start_node(concurrency=20)

    (record,) = ended(wish)
    found = [one for one in inspector.records(storm) if one.history]

    assert (record.state, record.result) == ("succeeded", 2)
    waited = record.last_attempted_at - record.history[0].ended_at
    assert 200 <= waited < 5000
    assert len(found) > 150
    delays = [one.due_at - one.history[0].ended_at for one in found if one.due_at]
    assert 10_000 <= min(delays) < 12_000
    assert 18_000 < max(delays) <= 20_000


#: What a person reads whose page is out of date.
GONE = "1 was already gone or has changed since."

KEYED = pytest.mark.parametrize(("first", "second"), [("python", "node"), ("node", "python")])


@pytest.fixture
def enqueue_keyed(hand, broker):
    """Give a function that enqueues a task with a key in a language; return whether it was stored, and the id."""

    def enqueue(language, key, name="hold", **options):
        if language == "node":
            options = {"idempotencyKey": key, "maxAttempts": 1}
            answer = hand.ask("enqueue", name=f"border.{name}", args='["go"]', options=options)
            return answer["word"] == "STORED", answer["id"]
        known = set(broker.client.scan_iter("*:task:*", count=1000))
        result = replace(getattr(tasks, name), idempotency_key=key, max_attempts=1).enqueue("go")
        return broker.keys.task(result.id).encode() not in known, result.id

    return enqueue


@KEYED
def test_c69_one_key_is_one_record_while_it_waits_and_runs_and_as_long_as_it_is_remembered(
    enqueue_keyed, hand, start_node, start_python, begun, open_gate, ended, first, second
):
    key = "Bestellung №1"
    is_stored, record_id = enqueue_keyed(first, key)
    both = [(first, key), (second, key)]
    assert is_stored
    assert {enqueue_keyed(*each) for each in both} == {(False, record_id)}
    (start_node if second == "node" else start_python)()
    begun(record_id)
    assert {enqueue_keyed(*each) for each in both} == {(False, record_id)}
    open_gate("go")
    ended(record_id)
    assert {enqueue_keyed(*each) for each in both} == {(False, record_id)}
    assert hand.ask("result", id=record_id)["status"] == "SUCCESSFUL"


@KEYED
def test_c66_a_dead_letter_of_one_side_blocks_no_key_of_the_other(
    enqueue_keyed, start_node, start_python, ended, first, second
):
    (start_node if first == "node" else start_python)()
    is_stored, dead = enqueue_keyed(second, "k", "bury")
    (record,) = ended(dead)
    assert (is_stored, record.state) == (True, "dead")

    is_stored, other = enqueue_keyed(second, "k", "bury")

    assert is_stored
    assert other != dead
    assert enqueue_keyed(first, "k", "bury")[1] != dead
    ended(other)


@KEYED
def test_c70_a_key_that_was_cancelled_by_one_side_is_free_for_the_other(enqueue_keyed, broker, first, second):
    _, record_id = enqueue_keyed(first, "k")
    assert broker.cancel([record_id]) == ["DONE"]
    is_stored, other = enqueue_keyed(second, "k")
    assert is_stored
    assert enqueue_keyed(first, "k") == (False, other)


def test_c70_of_many_with_the_same_keys_from_both_sides_at_once_one_of_each_is_stored(hand, broker, inspector):
    keys_of_all = [f"key-{number % 40}" for number in range(800)]
    hand.begin("many", calls=[{"name": "border.work", "options": {"idempotencyKey": key}} for key in keys_of_all])
    ours = broker.enqueue(
        [record("default", key=key, key_ttl_ms=HOUR, envelope=envelope("border.work")) for key in keys_of_all]
    )
    theirs = hand.answer()

    stored = [one.id for one in ours if one.word == "STORED"] + [one for one, word in theirs if word == "STORED"]
    assert len(stored) == len(set(stored)) == 40
    for place, key in enumerate(keys_of_all):
        assert ours[place].id == theirs[place][0], key
    assert sorted(one for one, _ in inspector.listing("default", "ready")) == sorted(stored)


@pytest.mark.django_db
def test_c78_what_moved_on_in_node_is_not_touched_by_pages_that_were_made_before(
    broker, start_node, ended, begun, open_gate, close_gate, ledger
):
    (record_id,) = put(broker, queue="default", envelope=envelope("border.hold", args=["go", "bury"]))
    start_node()
    open_gate("go")
    (dead,) = ended(record_id)
    client = client_of(*VIEW, "retry_deadletter", "discard_deadletter")
    pages = {verb: confirm_selected(client, verb, [record_id]) for verb in ("retry", "discard")}
    close_gate("go")
    assert broker.requeue([(record_id, dead.died_at, 0)]) == ["DONE"]
    wait_until(lambda: len(ledger().runs[record_id]) == 2)

    # It runs, and then it is a dead letter again: of neither do the pages know.
    for verb, page in pages.items():
        assert GONE in messages_of(send(client, verb, page))
    assert read(broker, record_id).state == "leased"
    open_gate("go")
    (dead,) = ended(record_id)
    for verb, page in pages.items():
        assert GONE in messages_of(send(client, verb, page))
    assert read(broker, record_id) == dead

    again = send(client, "retry", client.get(letter_url(record_id)))
    assert messages_of(again) == ["1 dead letter was retried."]
    wait_until(lambda: len(ledger().runs[record_id]) == 3)
    ended(record_id)
    ledger().check()
