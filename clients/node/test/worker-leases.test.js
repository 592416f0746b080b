import assert from 'node:assert/strict'
import { test } from 'node:test'

import { CancelRequested, LeaseLost } from '../dist/index.js'
import { Server, until } from './server.js'
import { enqueue, Gate, heeding, line, run, server, setUp, setUpLine, SOON, through, workers } from './workers.js'

const LEASE_MS = 300

setUp(() => Server.own('--appendonly', 'yes'))
setUpLine()

test('a lease that lapsed is a failed attempt, and any worker goes on with it', async () => {
  const { id } = await enqueue('note', [], { backoff: SOON })
  await workers.claimAsGone()
  const worker = workers.start({ note: (args, kwargs, { attempt }) => attempt }, { leaseMs: LEASE_MS })
  assert.equal((await workers.ended(id)).result, 2)
  const [log] = await server.redis.lrange(`{taskq}:log:${id}`, 0, 0)
  const { error, reason } = JSON.parse(log.slice(log.indexOf('{')))
  assert.deepEqual([error, reason], ['LeaseExpired', 'lease expired'])
  assert.equal(worker.log.with(`The lease of ${id} has lapsed`).length, 1)
})

test('a lapsed lease of another queue, whose name nobody here knows, is buried after its last attempt', async () => {
  const { id } = await enqueue('unknown', [], { queue: 'other', maxAttempts: 1 })
  await workers.claimAsGone(250, 'other')
  workers.start({}, { leaseMs: LEASE_MS })
  const [{ reason }] = (await workers.ended(id, 'dead')).errors
  assert.equal(reason, 'lease expired')
})

test('a lapsed lease of a record that was asked to end is its end', async () => {
  const { id } = await enqueue('note')
  await workers.claimAsGone()
  assert.deepEqual((await workers.taskq.broker.run('cancel', [60_000, id])).map(String), ['ASKED'])
  workers.start({}, { leaseMs: LEASE_MS })
  await workers.ended(id, 'cancelled')
})

test('nothing is reaped for a third of a lease after a start, and for one lease after Redis was away', async () => {
  const worker = workers.start({}, { leaseMs: 900, queues: ['other'] })
  const begun = performance.now()
  const first = await enqueue('note')
  await workers.claimAsGone()
  await workers.ended(first.id, 'waiting')
  assert.ok(performance.now() - begun >= 250)
  await server.down()
  const down = performance.now()
  await until(() => worker.log.with('trying again').length === 1)
  await until(() => performance.now() - down > 900) // its reaper has asked as well
  await server.up()
  const back = performance.now()
  await workers.flush()
  const second = await enqueue('note')
  await workers.claimAsGone()
  await workers.ended(second.id, 'waiting')
  assert.ok(performance.now() - back >= 900, `reaped ${performance.now() - back} ms after Redis was back`)
})

test('a long task keeps its lease beside a reaper', async () => {
  const { id } = await enqueue('wait')
  const gate = new Gate()
  const ends = new Set()
  let context
  workers.start({ wait: (args, kwargs, given) => ((context = given), gate.passed) }, { leaseMs: LEASE_MS })
  workers.start({}, { leaseMs: LEASE_MS, queues: ['other'] })
  await until(async () => ends.add(await server.redis.zscore('{taskq}:queue:default:leased', id)).size > 8)
  assert.deepEqual([context.leaseLost, context.signal.aborted], [false, false])
  gate.open('done')
  const { result, attempts } = await workers.ended(id)
  assert.deepEqual([result, attempts], ['done', 1])
})

test('a lease that was lost aborts the signal, and its settlement changes nothing', async () => {
  const { id } = await enqueue('wait')
  const { begun, task } = heeding()
  const worker = workers.start({ wait: task }, { leaseMs: LEASE_MS })
  const context = await begun
  await server.redis.hincrby(`{taskq}:run:${id}`, 'token', 1)
  const before = await run(id)
  await until(() => worker.log.with(`The lease of ${id} was lost, so its retry doesn't count`).length === 1)
  assert.ok(context.signal.reason instanceof LeaseLost)
  assert.equal(context.leaseLost, true)
  assert.deepEqual(await run(id), before)
  assert.equal(await server.redis.exists(`{taskq}:log:${id}`), 0)
})

test('a lease that could not be renewed in time aborts the signal', async () => {
  await enqueue('wait')
  const { begun, task } = heeding()
  workers.start({ wait: task }, { leaseMs: LEASE_MS, taskq: through() })
  const context = await begun
  assert.equal(context.leaseLost, false)
  line.replies = 'hold'
  await until(() => context.signal.aborted)
  assert.ok(context.signal.reason instanceof LeaseLost)
  line.replies = 'pass'
})

test('a task that is asked to end hears of it by its signal, and is cancelled', async () => {
  const { id } = await enqueue('wait', [], { backoff: SOON })
  const { begun, task } = heeding()
  workers.start({ wait: task }, { leaseMs: LEASE_MS })
  const context = await begun
  assert.equal(context.cancelRequested, false)
  await workers.taskq.broker.run('cancel', [60_000, id])
  await workers.ended(id, 'cancelled')
  assert.equal(context.cancelRequested, true)
  assert.ok(context.signal.reason instanceof CancelRequested)
})
