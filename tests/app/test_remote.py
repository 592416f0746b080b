"""Remote tasks: declared and enqueued here, worked on by another program, whose records and results are read here."""

from __future__ import annotations

import asyncio
import copy
import json
import pickle
from dataclasses import replace
from datetime import timedelta

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction
from django.test import override_settings

from django_taskq import BackgroundTask, background
from django_taskq.broker.envelope import Envelope
from django_taskq.broker.records import AttemptError, Claim, Lease, State
from django_taskq.compat import InvalidTask, TaskResultDoesNotExist, TaskResultStatus, signals
from django_taskq.execution import Application
from django_taskq.models import TaskRecord
from django_taskq.recording import Recorder
from django_taskq.task import RemoteTask
from django_taskq.worker.endings import Ending
from django_taskq.worker.maintenance import Reaper
from django_taskq.worker.outcomes import Failed, Released, settle
from tests.app import tasks
from tests.app.admin import VIEW, client_of, letter_url, text_of, token_of, url
from tests.app.outboxes import blocked
from tests.app.test_commit import rolled_back
from tests.app.test_task import DUMMY, IMMEDIATE
from tests.broker.helpers import lapse, make_due, record
from tests.databases.atomic import Control

NODE = "node-1.k3j5h2g1"
#: What the client for Node.js says of an error: the name of its class, without a module.
THROWN = AttemptError("NoSuchOrder", "order 7", "NoSuchOrder: order 7\n    at render (receipts.js:3:9)")
nonces = iter(range(1, 10**6))


def body(order_id, *, language="en"):
    raise AssertionError("it runs elsewhere")


@background(name="receipts.mail", queue_name="receipts", remote=True)
async def mail(order_id):
    raise AssertionError("it runs elsewhere")


def claim(backend, child=NODE, queue="receipts"):
    """Claim as any worker does."""
    (lease,) = backend.broker.claim(Claim(child, next(nonces), 1, 30_000, (queue,))).leases
    return lease


class TestDeclaration:
    def test_it_is_a_task_without_a_row(self):
        assert isinstance(tasks.render, BackgroundTask)
        assert (tasks.render.wire_name, tasks.render.name) == ("receipts.render", "render")
        assert tasks.render.outbox is False
        assert background(name="a.b", remote=True, outbox=False)(body).outbox is False

    def test_a_task_that_is_not_remote_is_as_ever(self):
        assert type(background(remote=False)(body)) is BackgroundTask

    @pytest.mark.parametrize(
        ("options", "advice"),
        [
            ({"name": None}, 'as in name="receipts.render"'),
            ({"takes_context": True}, "leave takes_context out"),
            ({"backoff": lambda error, result: 1}, "a number or a dict"),
            ({"retry_on": OSError}, "leave retry_on and bury_on out"),
            ({"bury_on": [OSError]}, "leave retry_on and bury_on out"),
            ({"outbox": True}, "leave outbox and atomic out"),
            ({"outbox": "other"}, "leave outbox and atomic out"),
            ({"atomic": True}, "leave outbox and atomic out"),
            ({"atomic": True, "on_commit": False}, "leave outbox and atomic out"),
        ],
    )
    def test_what_it_cannot_say_is_refused_with_what_to_do(self, options, advice):
        with pytest.raises(InvalidTask, match=f"^A remote task .*{advice}"):
            background(**{"name": "receipts.render", "remote": True, **options})(body)

    def test_all_else_is_taken(self):
        made = background(
            queue_name="q", priority=3, name="a.b", max_attempts=2, backoff=5, timeout=1, result_ttl=60,
            on_commit="other", remote=True,
        )(body)  # fmt: skip
        assert (made.priority, made.max_attempts, made.timeout, made.on_commit) == (3, 2, 1, "other")

    def test_it_is_a_value_as_any_task(self):
        made = tasks.render.using(run_after=timedelta(seconds=3), idempotency_key="k")
        assert type(made) is RemoteTask
        assert pickle.loads(pickle.dumps(made)) == copy.copy(made) == copy.deepcopy(made) == replace(made) == made
        assert hash(made) == hash(replace(made))


class TestCall:
    @pytest.mark.parametrize(
        "call", [tasks.render, tasks.render.call, async_to_sync(tasks.render.acall), mail, mail.call, mail.using()]
    )
    def test_it_cannot_be_called_here(self, call):
        with pytest.raises(RuntimeError, match=r"^receipts\.\w+ is a remote task, .* enqueue it"):
            call(7)

    def test_under_the_immediate_backend_it_fails_and_says_why(self):
        with override_settings(TASKS={"default": {"BACKEND": IMMEDIATE, "QUEUES": []}}):
            result = tasks.render.enqueue(7)
        assert result.status == TaskResultStatus.FAILED
        assert result.errors[0].exception_class is RuntimeError
        assert "receipts.render is a remote task" in result.errors[0].traceback

    def test_the_dummy_backend_keeps_it(self):
        with override_settings(TASKS={"default": {"BACKEND": DUMMY, "QUEUES": []}}):
            result = tasks.render.enqueue(7, language="de")
        assert (result.status, result.args, result.kwargs) == (TaskResultStatus.READY, [7], {"language": "de"})


class TestEnqueue:
    def test_its_record_says_what_a_worker_anywhere_needs(self, backend, inspector):
        record = inspector.record(tasks.render.enqueue(7, language="de").id)
        assert record.state is State.WAITING
        assert (record.head.queue, record.head.record_alias) == ("receipts", None)
        assert json.loads(record.envelope_bytes) == {
            "v": 1,
            "name": "receipts.render",
            "args": [7],
            "kwargs": {"language": "de"},
            "max_attempts": 5,
            "backoff": {"base": 3, "factor": 2, "cap": 300, "jitter": "equal"},
        }

    def test_every_way_to_enqueue_works(self, backend, inspector):
        results = [
            tasks.render.enqueue(1),
            async_to_sync(tasks.render.aenqueue)(2),
            *tasks.render.enqueue_many([((3,), {}), ((), {"order_id": 4})]),
            tasks.render.using(priority=9, run_after=timedelta(hours=1)).enqueue(5),
            mail.enqueue(6),
        ]
        assert all(inspector.record(result.id).state is State.WAITING for result in results)
        assert inspector.counts()["receipts"].ready == 5
        assert inspector.counts()["receipts"].scheduled == 1

    def test_an_idempotency_key_names_one(self, backend):
        once = tasks.render.using(idempotency_key="receipt-7")
        assert once.enqueue(7).id == once.enqueue(7).id

    @pytest.mark.django_db(transaction=True)
    def test_it_waits_for_the_commit(self, backend):
        with transaction.atomic():
            kept = tasks.render.enqueue(1)
            with pytest.raises(TaskResultDoesNotExist):
                tasks.render.get_result(kept.id)
        with rolled_back():
            dropped = tasks.render.enqueue(2)
        assert tasks.render.get_result(kept.id).status == TaskResultStatus.READY
        with pytest.raises(TaskResultDoesNotExist):
            tasks.render.get_result(dropped.id)

    @pytest.mark.django_db
    def test_it_has_no_outbox_where_the_others_have_one(self, outbox_backend):
        with blocked("default"):
            result = tasks.render.using(on_commit=False).enqueue(7)
            tasks.render.using(on_commit=False).enqueue_many([((8,), {})])
        assert claim(outbox_backend).id == result.id


class TestWorker:
    @pytest.fixture(params=[tasks.render, mail], ids=["function", "coroutine"])
    def perform(self, request, with_options):
        """Give a function that lets a worker here claim a remote task, and returns the lease and what comes of it."""
        backend = with_options(unknown_ttl=60)
        application = Application.connect("default")

        def perform(lease=None, **fields):
            if lease is None:
                request.param.enqueue(7)
                lease = claim(backend, "here-1.abcdefgh")
            lease = replace(lease, **fields)
            if application.is_coroutine(lease):
                return lease, asyncio.run(application.aperform(lease, Control()))
            return lease, application.perform(lease, Control())

        return perform

    def test_it_goes_back_with_a_growing_delay(self, perform, caplog):
        for releases, delay_ms in [(0, 5_000), (1, 10_000), (11, 60_000), (500, 60_000)]:
            _, outcome = perform(releases=releases)
            assert outcome == Released(delay_ms, unknown=True)
        assert "The remote task 'receipts." in caplog.text
        assert "isn't run here" in caplog.text

    def test_it_is_buried_only_when_nobody_knew_it_for_long(self, perform):
        assert isinstance(perform(unknown_ms=59_999)[1], Released)
        outcome = perform(unknown_ms=60_000)[1]
        assert isinstance(outcome, Failed)
        assert (outcome.delay_ms, outcome.error.reason) == (None, "unknown task")
        assert "isn't run here, nor was it elsewhere." in outcome.error.message

    def test_whoever_knows_it_claims_it_later_with_all_attempts(self, perform, backend, inspector):
        lease, outcome = perform()
        assert settle(backend.broker, lease, outcome) == "DONE"
        assert inspector.record(lease.id).attempts == 0
        make_due(backend.broker, lease.id, queue="receipts")
        assert claim(backend).attempt == 1


class TestResult:
    def test_what_another_program_returned_is_read(self, backend):
        result = tasks.render.enqueue(7)
        backend.broker.complete(claim(backend), b'{"result":{"html":"<p>\xe2\x82\xac</p>"}}')
        result.refresh()
        assert (result.status, result.return_value) == (TaskResultStatus.SUCCESSFUL, {"html": "<p>€</p>"})
        assert result.worker_ids == [NODE]
        assert tasks.render.get_result(result.id).task == tasks.render

    def test_errors_of_another_language_are_told_by_their_name(self, backend):
        result = tasks.render.enqueue(7)
        backend.broker.retry(claim(backend), 0, AttemptError("TypeError", "no", "", "").to_json())
        backend.broker.bury(claim(backend), THROWN.to_json())
        result.refresh()
        assert result.status == TaskResultStatus.FAILED
        assert [error.exception_class_path for error in result.errors] == ["TypeError", "NoSuchOrder"]
        assert [error.traceback for error in result.errors] == ["no", THROWN.traceback]
        with pytest.raises(ImportError):
            result.errors[1].exception_class

    def test_what_is_no_json_is_an_error_that_cannot_be_read(self, backend):
        result = tasks.render.enqueue(7)
        backend.broker.bury(claim(backend), b'{"error":"x","message":NaN}')
        result.refresh()
        assert "NaN" in result.errors[0].traceback


@pytest.mark.django_db(transaction=True)
class TestRows:
    """A remote task has no row, whoever ends it: its worker can't keep one."""

    @pytest.fixture(params=["finished", "outbox"])
    def backend(self, request, with_options):
        return with_options(records=request.param)

    def reap(self, backend, lease):
        lapse(backend.broker, lease, ago=1000)
        reaper = Reaper(Application.connect("default"), 30.0)
        reaper._not_before = 0.0
        reaper.work()

    def test_a_lapsed_lease_is_another_attempt(self, backend, inspector):
        result = tasks.render.enqueue(7)
        self.reap(backend, claim(backend))
        record = inspector.record(result.id)
        assert (record.state, record.attempts) == (State.WAITING, 1)
        assert record.history[0].error.reason == "lease expired"
        assert 1500 <= record.due_at - record.history[0].ended_at <= 3000  # as its declaration says
        assert not TaskRecord.objects.exists()

    def test_the_last_lapsed_lease_is_a_dead_letter_without_a_row(self, backend, inspector):
        result = replace(tasks.render, max_attempts=1).enqueue(7)
        told = []

        def receive(task_result, **kwargs):
            told.append(task_result)

        signals.task_finished.connect(receive)
        with blocked("default"):
            self.reap(backend, claim(backend))
        signals.task_finished.disconnect(receive)
        assert inspector.record(result.id).state is State.DEAD
        assert [(each.id, type(each.task)) for each in told] == [(result.id, RemoteTask)]
        assert not TaskRecord.objects.exists()

    def test_others_that_lapse_have_theirs(self, backend):
        result = replace(tasks.add, max_attempts=1, outbox=False).enqueue(1)
        self.reap(backend, claim(backend, queue="default"))
        assert TaskRecord.objects.get().pk == result.id

    def test_its_result_is_gone_with_redis(self, backend):
        result = tasks.render.enqueue(7)
        backend.broker.complete(claim(backend), b'{"result":1}')
        assert backend.get_result(result.id).return_value == 1
        backend.broker.client.flushall()
        with pytest.raises(TaskResultDoesNotExist):
            backend.get_result(result.id)


@pytest.mark.django_db(transaction=True)
class TestAdmin:
    def test_a_lease_of_another_program_is_listed(self, backend):
        tasks.render.enqueue(7)
        lease = claim(backend)
        page = text_of(client_of(*VIEW).get(url("lease")))
        for text in ("receipts.render", lease.id, NODE, "1 of 5"):
            assert text in page

    def test_a_dead_letter_shows_what_another_language_says_of_its_error(self, backend):
        backend.broker.enqueue([record("receipts", envelope=Envelope("known.nowhere", [7]).to_bytes())])
        lease = claim(backend)
        backend.broker.bury(lease, THROWN.to_json())
        viewer = client_of(*VIEW)
        for page in (text_of(viewer.get(url("deadletter"))), text_of(viewer.get(letter_url(lease.id)))):
            for text in ("known.nowhere", lease.id, "NoSuchOrder", "order 7"):
                assert text in page
        assert "receipts.js:3:9" in page

    def test_a_dead_letter_is_retried_for_its_worker(self, with_options, inspector):
        backend = with_options(records="finished")
        result = tasks.render.enqueue(7)
        backend.broker.bury(claim(backend), THROWN.to_json())
        client = client_of(*VIEW, "retry_deadletter")
        page = url("deadletter", "retry")
        client.post(page, {"op": token_of(text_of(client.get(page)))})
        assert inspector.record(result.id).state is State.WAITING
        assert claim(backend).attempt == 1


@pytest.mark.parametrize(
    ("keeps_all", "task", "kept"),
    [
        (True, b'1 0 q\n\n{"name":"receipts.render"}', False),
        (True, b'1 0 q\n\n{"name":"known.nowhere"}', True),
        (True, b"1 0 q\n\nno JSON", True),
        (True, b'1 0 q\nrecord default\n\n{"name":"receipts.render"}', True),
        (False, b'1 0 q\nrecord default\n\n{"name":"known.nowhere"}', True),
        (False, b'1 0 q\n\n{"name":"known.nowhere"}', False),
    ],
)
def test_a_row_is_kept_of_what_is_not_remote_and_of_what_has_one(backend, keeps_all, task, kept):
    lease = Lease("ID1", "q", 7, 1, 0, None, task, 0, 0.0)
    assert Recorder("default", backend.broker, keeps_all=keeps_all).keeps(lease) is kept


def test_a_record_of_a_later_version_goes_back(backend, caplog):
    enqueue(backend, b'{"v":2,"name":"tests.app.tasks.add","args":{"later":1}}')
    lease = claim(backend, "here-1.abcdefgh", "default")
    assert Application.connect("default").perform(lease, Control()) == Released(5_000, unknown=True)
    assert "version 2" in caplog.text


def enqueue(backend, *envelopes, queue="default"):
    """Enqueue as a program does that knows of no row, and of no module."""
    return backend.broker.enqueue([record(queue, envelope=envelope) for envelope in envelopes])


def named(name, *args, **fields):
    return Envelope(name, list(args), **fields).to_bytes()


@pytest.mark.django_db(transaction=True)
class TestCalledByName:
    """Tasks here that another program enqueues: it says a name and arguments, and nothing of modules or rows."""

    @pytest.fixture
    def work(self, backend):
        """Give a function that runs what is ready as a worker does, and returns its outcome."""

        def work(queue="default"):
            lease = claim(backend, "here-1.abcdefgh", queue)
            application = Application.connect("default")
            outcome = application.perform(lease, Control())
            assert settle(backend.broker, lease, outcome) == "DONE"
            return outcome

        return work

    @pytest.mark.parametrize(
        ("name", "value"), [("tests.app.tasks.add", 3), ("send_welcome", 3), ("tests.app.tasks.send", 3)]
    )
    def test_a_task_answers_to_its_name(self, backend, work, name, value):
        (stored,) = enqueue(backend, named(name, 3))
        work()
        assert backend.get_result(stored.id).return_value == value

    @pytest.mark.parametrize("name", ["os.system", "tests.app.tasks.not_a_task", "tests.app.tasks.background"])
    def test_nothing_else_can_be_called(self, backend, work, name):
        (stored,) = enqueue(backend, named(name, "true"))
        outcome = work()
        assert (outcome.delay_ms, outcome.error.reason) == (None, "no task")
        assert backend.get_result(stored.id).status == TaskResultStatus.FAILED

    def test_a_number_that_is_none_is_unreadable_and_its_bytes_stay(self, backend, work, inspector):
        data = b'{"v":1,"name":"tests.app.tasks.add","args":[NaN]}'
        (stored,) = enqueue(backend, data)
        assert work().error.reason == "unreadable record"
        assert inspector.record(stored.id).envelope_bytes == data

    @pytest.mark.parametrize("records", ["finished", "outbox"])
    def test_its_row_is_written_when_it_ends(self, with_options, records):
        backend = with_options(records=records)
        (stored,) = enqueue(backend, named("tests.app.tasks.add", 3))
        assert not TaskRecord.objects.exists()
        application = Application.connect("default")
        lease = claim(backend, "here-1.abcdefgh", "default")
        outcome = application.perform(lease, Control())
        assert application.rows.keeps(lease)
        application.rows.write([Ending(lease, outcome, "here-1.abcdefgh")])
        assert settle(backend.broker, lease, outcome) == "DONE"
        assert TaskRecord.objects.get(pk=stored.id).status == "succeeded"
