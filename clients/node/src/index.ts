/** Enqueue and run tasks of a django_taskq queue from Node.js. */
export {
  BrokerError, BrokerUnavailable, Bury, ConfigurationError, EnqueueError, InvalidName, OutOfMemory, RequestError, Retry,
  TaskqError, UnknownVersion, UnreadableRecord,
} from './errors.js'
export { Float, type Json } from './json.js'
export type { AttemptError, State } from './records.js'
export type { Status, TaskResult } from './results.js'
export type { Backoff, Jitter, Seconds } from './retry.js'
export { type EnqueueOptions, type Handle, type Task, Taskq, type TaskqOptions } from './taskq.js'
export type { Context, Handler } from './worker/context.js'
export { CancelRequested, LeaseLost, TaskTimeout, WorkerStopped } from './worker/reasons.js'
export type { Log, WorkerOptions } from './worker/settings.js'
export { Worker } from './worker/worker.js'
