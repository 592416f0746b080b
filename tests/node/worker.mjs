// A worker of the fleet in Node.js; tasks.py has the same tasks in Python. Each run notes its start and its end.
import { setTimeout as sleep } from 'node:timers/promises'
import { Bury, openLedger, Retry, settings, Taskq, Worker } from './noting.mjs'

const { url, options = {}, ...given } = settings
const taskq = new Taskq({ url, ...options })
const ledger = openLedger()
const who = `node-${process.pid}`

const note = (event, { id, attempt, fencingToken }) =>
  ledger.xadd('ledger', '*', 'event', event, 'id', id, 'attempt', attempt, 'token', String(fencingToken), 'who', who)

const noted = (run) => async (args, kwargs, context) => {
  await note('begin', context)
  let end = 'failed'
  try {
    const value = await run(context, ...args, kwargs)
    end = 'done'
    return value
  } finally {
    await note(end, context)
  }
}

const failUntil = ({ attempt }, failures) => {
  if (attempt <= failures) throw new RangeError(`attempt ${attempt} fails in Node`)
  return { by: 'node', attempt }
}

const work = (context, number, failures) => failUntil(context, typeof failures === 'number' ? failures : 0)

const tasks = {
  'border.work': work,
  'border.node_only': work,
  'border.hold': async ({ attempt }, gate, then) => {
    const deadline = Date.now() + 30_000
    const gates = [`gate:${gate}`, `gate:${gate} ${attempt}`]
    while ((await ledger.exists(gates)) === 0 && Date.now() < deadline) await sleep(5)
    if (then === 'bury') throw new Bury('bad card', 'declined')
    return { by: 'node', attempt }
  },
  'border.step': async ({ attempt }, milliseconds) => {
    await sleep(milliseconds)
    return { by: 'node', attempt }
  },
  // What JavaScript sees in its arguments.
  'border.describe': (context, ...values) =>
    values.slice(0, -1).map((value) => [typeof value, Object.is(value, -0) ? '-0' : String(value)]),
  'border.give': (context, size) => 'x'.repeat(size),
  'border.give_half': () => ['\ud83d\ude00', '\udc80'],
  'border.retry_after': ({ attempt }, seconds) => {
    if (attempt === 1) throw new Retry(seconds * 1000)
    return attempt
  },
  'border.bury': () => {
    throw new Bury('bad card', 'declined')
  },
  // Hand on to Python what came from there, and back.
  'border.echo_on': async ({ id, taskq }, value) => {
    const next = await taskq.enqueue('border.echo_last', [value], { queue: 'python', kwargs: { again: value } })
    await ledger.hset('hops', id, next.id)
    return value
  },
  'border.echo_last': (context, value) => value,
}

const worker = new Worker(taskq, {
  queues: ['default'],
  ...given,
  tasks: Object.fromEntries(Object.entries(tasks).map(([name, run]) => [name, noted(run)])),
})
const { forced } = await worker.run({ signals: true })
await taskq.close()
process.exit(forced ? 3 : 0) // what still runs here has lost its lease
