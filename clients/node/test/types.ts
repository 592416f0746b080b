// What compiles against the types that are published, and what must not: read by `npm run check`, never run.
import {
  BrokerUnavailable, Bury, type Context, EnqueueError, Float, type Handle, type Handler, type Json, Retry,
  type TaskResult, Taskq, TaskqError, Worker,
} from '../dist/index.js'

const taskq = new Taskq({ url: 'redis://localhost:6379/0', namespace: 'shop', maxPayloadBytes: 1000, exact: true })

export async function produce(): Promise<Handle> {
  const { id, word, state, enqueuedAt } = await taskq.enqueue('shop.tasks.add', [2, 3n, new Float(1)], {
    kwargs: { deep: [{ a: null }] }, queue: 'mail', priority: -3, delayMs: 10, idempotencyKey: 'k', idempotencyTtlMs: 1,
    maxAttempts: 3, backoff: { base: 1, jitter: 'full' }, timeoutMs: 5, resultTtlMs: 0,
  })
  const stored: boolean = word === 'STORED' || state === 'waiting'
  const moment: number = enqueuedAt.getTime() + Number(stored)
  await taskq.enqueue('t', [] as const, { runAt: new Date(moment), backoff: 5, kwargs: new Map([['a', 1]]) })
  const handles: Handle[] = await taskq.enqueueMany([{ name: 't' }, { name: 't', args: [1], id }])
  // @ts-expect-error  It is no option.
  await taskq.enqueue('t', [], { delay: 5 })
  // @ts-expect-error  Arguments are an array.
  await taskq.enqueue('t', { a: 1 })
  // @ts-expect-error  A moment is a Date.
  await taskq.enqueue('t', [], { runAt: 5 })
  // @ts-expect-error  A task has a name.
  await taskq.enqueueMany([{ args: [] }])
  // @ts-expect-error  It is no option of the queue.
  new Taskq({ redis: 'x' })
  // @ts-expect-error  What talks to Redis is ours.
  taskq.broker
  return handles[0]!
}

export async function read(id: string): Promise<Json> {
  const found: TaskResult | null = await taskq.result(id)
  // @ts-expect-error  There may be none.
  found.status
  if (found?.status !== 'FAILED') return found?.result ?? null
  // @ts-expect-error  It is none of Django's statuses.
  if (found.status === 'DEAD') return null
  const [{ error, message, traceback, reason } = { error: '', message: '', traceback: '', reason: '' }] = found.errors
  const finished: Date | null = found.finishedAt
  return [error, message, traceback, reason, finished && finished.toISOString()]
}

const add: Handler = async ([a, b]: [number, number], { times = 1 }: { times?: number }, context: Context) => {
  context.signal.throwIfAborted()
  if (context.leaseLost || context.cancelRequested) throw new Bury('too late', 'reason')
  if (context.attempt > 1) throw new Retry(1000)
  await context.taskq.enqueue('next', [context.id, context.queue, context.name], {
    ...(context.idempotencyKey === null ? {} : { idempotencyKey: context.idempotencyKey }),
  })
  return { sum: (a + b) * times, token: context.fencingToken }
}

export async function work(): Promise<boolean> {
  const worker = new Worker(taskq, {
    queues: ['mail'], tasks: { add, plain: () => null }, concurrency: 5, leaseMs: 1000, shutdownMs: 0, name: 'w',
    unknownTtlMs: 5, burst: true, log: console,
  })
  worker.stop()
  worker.stop({ now: true })
  // @ts-expect-error  A worker serves queues.
  new Worker(taskq, { tasks: {} })
  // @ts-expect-error  A task is a function.
  new Worker(taskq, { queues: ['q'], tasks: { a: 1 } })
  const { forced } = await worker.run({ signals: true })
  return forced
}

export function explain(error: unknown): string {
  if (error instanceof EnqueueError) return `${error.ids.join()} ${error.maybeStored}`
  if (error instanceof BrokerUnavailable) return `${error.maybeExecuted}`
  return error instanceof TaskqError ? error.message : String(error)
}
