/** What is shown of a task. Nothing is validated: one that can't be read must still be viewable. */
import { Envelope } from './envelope.js'
import { UnreadableRecord } from './errors.js'
import type { Json } from './json.js'
import { type Record, resultOf, roundOf, workerIdsOf } from './reading.js'
import type { AttemptError, State } from './records.js'

/** The name of a task whose envelope can't be read. */
export const UNREADABLE = 'unreadable.record'

/** Django's word for a state. */
export type Status = 'READY' | 'RUNNING' | 'SUCCESSFUL' | 'FAILED'

const STATUSES: { readonly [state in State]: Status } = {
  waiting: 'READY', leased: 'RUNNING', succeeded: 'SUCCESSFUL', dead: 'FAILED', cancelled: 'FAILED',
}

/** A task and what has become of it. */
export interface TaskResult {
  id: string
  name: string
  args: readonly Json[]
  kwargs: { readonly [name: string]: Json } | ReadonlyMap<string, Json>
  queue: string
  priority: number
  state: State
  status: Status
  /** How often it was begun, since it was enqueued or a person last retried it. */
  attempts: number
  /** What it returned; null as long as it hasn't succeeded, too. */
  result: Json
  /** Why its attempts failed, oldest first. */
  errors: AttemptError[]
  /** Who made each attempt. */
  workerIds: string[]
  enqueuedAt: Date
  startedAt: Date | null
  finishedAt: Date | null
  /** When it may run; null when it may now, or did. */
  dueAt: Date | null
}

/** Return the result that a record stands for. */
export function resultFrom(record: Record): TaskResult {
  const envelope = readable(record)
  const isFinished = record.state !== 'waiting' && record.state !== 'leased'
  return {
    id: record.id,
    name: envelope.name,
    args: envelope.args as Json[],
    kwargs: envelope.kwargs as TaskResult['kwargs'],
    queue: record.head.queue,
    priority: record.head.priority,
    state: record.state,
    status: STATUSES[record.state],
    attempts: record.attempts,
    result: resultOf(record),
    errors: roundOf(record).flatMap(({ error }) => error ?? []),
    workerIds: workerIdsOf(record),
    enqueuedAt: new Date(record.head.enqueuedAt),
    startedAt: dateOf(record.startedAt),
    finishedAt: isFinished ? dateOf(record.finishedAt ?? record.diedAt) : null,
    dueAt: dateOf(record.dueAt),
  }
}

function readable(record: Record): Envelope {
  try {
    return record.envelope()
  } catch (error) {
    if (error instanceof UnreadableRecord) return new Envelope({ name: UNREADABLE })
    throw error
  }
}

function dateOf(ms: number | null): Date | null {
  return ms === null ? null : new Date(ms)
}
