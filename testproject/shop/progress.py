"""What has become of a task, in words for a page."""

from __future__ import annotations

from dataclasses import dataclass

from django_taskq import BackgroundTask
from django_taskq.broker.exceptions import TaskqError

from . import tasks
from .models import Order, Receipt, Step

try:
    from django.tasks import TaskResult, TaskResultStatus
    from django.tasks.exceptions import TaskResultDoesNotExist
except ImportError:  # Django 5.2, through the backport
    from django_tasks import TaskResult, TaskResultStatus
    from django_tasks.exceptions import TaskResultDoesNotExist

TASKS: dict[str, BackgroundTask] = {
    Step.Kind.CONFIRMATION: tasks.send_confirmation,
    Step.Kind.PAYMENT: tasks.capture_payment,
    Step.Kind.WAREHOUSE: tasks.notify_warehouse,
    Step.Kind.REMINDER: tasks.send_reminder,
}

WORDS = {
    TaskResultStatus.READY: "waiting",
    TaskResultStatus.RUNNING: "running",
    TaskResultStatus.SUCCESSFUL: "done",
    TaskResultStatus.FAILED: "failed",
}


@dataclass(frozen=True)
class Progress:
    """The state of one task; `word` is also a CSS class."""

    word: str
    detail: str = ""
    attempts: int = 0
    finished: bool = False


def progress_of(task: BackgroundTask, result_id: str) -> Progress:
    """Look a task up, in Redis or among the records."""
    try:
        result = task.get_result(result_id)
    except TaskResultDoesNotExist:
        return Progress("unknown", "No longer known, or not enqueued.")
    except TaskqError:
        return Progress("unknown", "The task queue can't be reached just now.")
    return Progress(WORDS[result.status], _detail(result), result.attempts, result.is_finished)


def progress_of_step(step: Step) -> Progress:
    """Look up the task of a step; a receipt has two: one makes it, and enqueues the other, which files it."""
    if step.kind != Step.Kind.RECEIPT:
        return progress_of(TASKS[step.kind], step.result_id)
    if receipt := Receipt.objects.filter(order=step.order_id).first():
        return progress_of(tasks.file_receipt, receipt.result_id)
    made = progress_of(tasks.render_receipt, step.result_id)
    return progress_of(tasks.file_receipt, made.detail) if made.word == "done" else made


def steps_of(order: Order) -> list[tuple[Step, Progress]]:
    """Look up all steps of an order, as they follow one another."""
    steps = sorted(order.steps.all(), key=lambda step: Step.Kind.values.index(step.kind))
    return [(step, progress_of_step(step)) for step in steps]


def _detail(result: TaskResult) -> str:
    if result.status == TaskResultStatus.SUCCESSFUL:
        return str(result.return_value)
    if result.errors:
        # A traceback ends with the exception and its message.
        return result.errors[-1].traceback.strip().rpartition("\n")[2].rpartition("shop.gateway.")[2]
    return ""
