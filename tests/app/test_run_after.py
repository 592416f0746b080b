"""When a task may start: moments, delays, time zones, and the edges of time."""

from __future__ import annotations

import time
from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from django.test import override_settings
from django.utils import timezone as django_timezone

from django_taskq.broker.records import Claim
from django_taskq.compat import InvalidTask, task_backends
from django_taskq.results import moment
from tests.app import tasks

KATHMANDU = ZoneInfo("Asia/Kathmandu")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def enqueue(run_after):
    """Return when a task is due, in ms since the epoch; None when it is ready at once."""
    result = tasks.add.using(run_after=run_after).enqueue(1)
    return due(result.id)


def due(record_id):
    from django_taskq.broker.inspector import Inspector

    return Inspector(task_backends["default"].broker).record(record_id).due_at


def server_ms(client):
    seconds, microseconds = client.time()
    return seconds * 1000 + microseconds // 1000


@pytest.mark.parametrize(
    "moment_given",
    [
        datetime(2040, 2, 3, 4, 5, 6, 789000, tzinfo=UTC),
        datetime(2040, 2, 3, 4, 5, 6, 789000, tzinfo=KATHMANDU),
        datetime(2040, 2, 3, 4, 5, 6, 789000, tzinfo=timezone(timedelta(hours=-11, minutes=-30))),
        datetime(9999, 12, 31, 23, 59, 59, 999000, tzinfo=UTC),
    ],
)
def test_c56_an_aware_moment_is_exact(backend, moment_given):
    assert enqueue(moment_given) == (moment_given - EPOCH) // timedelta(milliseconds=1)


def test_c56_a_task_never_starts_before_its_moment(backend):
    assert enqueue(datetime(2040, 1, 1, 0, 0, 0, 1, tzinfo=UTC)) % 1000 == 1


def test_c56_a_naive_moment_is_refused_with_time_zones(backend):
    with pytest.raises(InvalidTask, match="aware"):
        tasks.add.using(run_after=datetime(2040, 1, 1))


@pytest.mark.parametrize("environment", ["UTC", "America/New_York", None])
def test_c56_a_naive_moment_is_local_without_time_zones(backend, monkeypatch, environment):
    with override_settings(USE_TZ=False, TIME_ZONE="Asia/Kathmandu"):
        if environment:
            monkeypatch.setenv("TZ", environment)
            time.tzset()
        naive = datetime(2040, 2, 3, 4, 5, 6)
        aware = naive.replace(tzinfo=KATHMANDU)

        assert enqueue(naive) == enqueue(aware) == aware.timestamp() * 1000
    monkeypatch.undo()
    time.tzset()


def test_c56_results_are_as_the_settings_want_them(backend):
    with override_settings(USE_TZ=False, TIME_ZONE="Asia/Kathmandu"):
        result = tasks.add.using(run_after=datetime(2040, 2, 3, 4, 5, 6)).enqueue(1)
        now = django_timezone.now()

        assert result.enqueued_at.tzinfo is None
        assert abs(now - result.enqueued_at) < timedelta(seconds=5)
        assert backend.get_result(result.id) == result


def test_c56_the_year_9999_can_be_shown(backend):
    latest = datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=timezone(timedelta(hours=-14)))
    result = tasks.add.using(run_after=latest).enqueue(1)

    assert backend.get_result(result.id).task.run_after == datetime.max.replace(tzinfo=UTC)
    with override_settings(USE_TZ=False, TIME_ZONE="Asia/Kathmandu"):
        assert backend.get_result(result.id).task.run_after == datetime.max


@pytest.mark.parametrize("value", [date(2040, 1, 1), 60, 0, -5, 0.5, False, True, "2040-01-01", time.gmtime()])
def test_c56_nothing_else_is_a_time(backend, value):
    with pytest.raises(InvalidTask, match="datetime"):
        tasks.add.using(run_after=value)


@pytest.mark.parametrize(
    "past", [datetime(1, 1, 1, tzinfo=UTC), datetime(1969, 12, 31, tzinfo=UTC), EPOCH, datetime(2001, 1, 1, tzinfo=UTC)]
)
def test_a_moment_that_has_passed_is_now(backend, past):
    assert enqueue(past) is None


@pytest.mark.parametrize("delay", [timedelta(0), timedelta(seconds=-5), timedelta.min])
def test_c59_no_delay_and_a_negative_one_are_now_and_in_order(backend, delay):
    ids = [
        tasks.add.using(run_after=delay).enqueue(1).id,
        tasks.add.enqueue(1).id,
        tasks.add.using(run_after=delay).enqueue(1).id,
    ]
    leases = backend.broker.claim(Claim("w.child0001", 1, 5, 30_000, ("default",))).leases

    assert [lease.id for lease in leases] == ids


@pytest.mark.parametrize(("seconds", "ms"), [(0.0004, 1), (0.25, 250), (1.0001, 1001), (3600, 3_600_000)])
def test_c59_a_delay_is_never_cut_to_nothing(inspector, seconds, ms):
    record = inspector.record(tasks.add.using(run_after=timedelta(seconds=seconds)).enqueue(1).id)

    assert record.due_at - record.head.enqueued_at == ms


def test_a_delay_counts_on_the_clock_of_redis(backend, redis_client, monkeypatch):
    monkeypatch.setattr(time, "time", lambda: 0.0)
    before = server_ms(redis_client)
    at = enqueue(timedelta(hours=1))

    assert before + 3_600_000 <= at <= server_ms(redis_client) + 3_600_000


def test_none_leaves_the_time_unchanged(backend):
    delayed = tasks.add.using(run_after=timedelta(hours=1))

    assert delayed.using(run_after=None) == delayed
    assert enqueue(None) is None


@pytest.mark.parametrize("delay", [timedelta.max, timedelta(days=366 * 9999)])
def test_c56_a_delay_beyond_the_year_9999_is_refused(delay):
    with pytest.raises(InvalidTask, match="9999"):
        tasks.add.using(run_after=delay)


def test_a_moment_is_read_back_in_utc():
    assert moment(1_234) == datetime(1970, 1, 1, 0, 0, 1, 234000, tzinfo=UTC)
