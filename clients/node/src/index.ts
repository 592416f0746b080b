/** Enqueue and run tasks of a django_taskq queue from Node.js. */
export * from './errors.js'
export { Float, type Json } from './json.js'
export type { AttemptError, State } from './records.js'
export type { Status, TaskResult } from './results.js'
export type { Backoff, Jitter, Seconds } from './retry.js'
export { type EnqueueOptions, type Handle, type Task, Taskq, type TaskqOptions } from './taskq.js'
