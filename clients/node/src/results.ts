/** What is shown of a task. Nothing is validated: one that can't be read must still be viewable. */
import { Envelope } from './envelope.js'
import { UnreadableRecord } from './errors.js'
import type { Json } from './json.js'
import { repr } from './json/repr.js'
import { type Record, resultOf, roundOf, workerIdsOf } from './reading.js'
import type { AttemptError, State } from './records.js'

/** The name of a task whose envelope can't be read. */
export const UNREADABLE = 'unreadable.record'

/** Django's word for a state. */
export type Status = 'READY' | 'RUNNING' | 'SUCCESSFUL' | 'FAILED'

const STATUSES = new Map<State, Status>([
  ['waiting', 'READY'], ['leased', 'RUNNING'], ['succeeded', 'SUCCESSFUL'], ['dead', 'FAILED'], ['cancelled', 'FAILED'],
])

/** The last date that JavaScript has, in ms. */
const LAST_DATE = 8.64e15

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

/** Return the result that a record stands for; throw `UnreadableRecord` for a state that isn't known here. */
export function resultFrom(record: Record): TaskResult {
  const envelope = readable(record)
  const status = STATUSES.get(record.state)
  if (!status) throw new UnreadableRecord(`The state of ${record.id} is ${repr(record.state)}, which isn't known here.`)
  const isFinished = record.state !== 'waiting' && record.state !== 'leased'
  return {
    id: record.id,
    name: envelope.name,
    args: envelope.args as Json[],
    kwargs: envelope.kwargs as TaskResult['kwargs'],
    queue: record.head.queue,
    priority: record.head.priority,
    state: record.state,
    status,
    attempts: record.attempts,
    result: resultOf(record),
    errors: roundOf(record).flatMap(({ error }) => error ?? []),
    workerIds: workerIdsOf(record),
    enqueuedAt: dateOf(record.head.enqueuedAt)!,
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

/** Return a moment; one that a stranger wrote may lie beyond all dates. */
function dateOf(ms: number | null): Date | null {
  return ms === null || Number.isNaN(ms) ? null : new Date(Math.min(ms, LAST_DATE))
}
