/**
 * Why an attempt is to end, as its signal says, and what is recorded of one that ended without an answer from the task.
 */

import { TaskqError } from '../errors.js'

/** The task ran longer than its time limit. */
export class TaskTimeout extends TaskqError {
  constructor() {
    super('The task ran longer than its time limit.')
  }
}

/** Another worker may have the lease by now, so nothing that this attempt does counts. */
export class LeaseLost extends TaskqError {
  constructor() {
    super('The lease was lost: another worker may run the task.')
  }
}

/** Someone asked for the task to end. */
export class CancelRequested extends TaskqError {
  constructor() {
    super('The task was asked to end.')
  }
}

/** The worker ends, and gives the task back with its attempt. */
export class WorkerStopped extends TaskqError {
  constructor() {
    super('The worker ends, and its tasks go back.')
  }
}

/** The lease wasn't renewed in time: the worker, its machine or its connection was lost. */
export class LeaseExpired extends TaskqError {
  constructor() {
    super("The lease wasn't renewed in time: the worker, its machine or its connection was lost.")
  }
}

/** No worker knew this task, or this version of it, for as long as it may stay. */
export class UnknownTask extends TaskqError {}
