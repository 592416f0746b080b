import assert from 'node:assert/strict'
import { test } from 'node:test'

import { BrokerError, ConfigurationError } from '../dist/index.js'
import { Server, until } from './server.js'
import {
  enqueue, Gate, isBlocked, line, loseReply, meddled, run, server, setUp, setUpLine, SOON, state, through, workers,
} from './workers.js'

const LEASE_MS = 300

setUp(() => Server.own('--appendonly', 'yes'))
setUpLine()

test('a claim whose answer was lost is asked again, and what it leased runs once', async () => {
  const { id } = await enqueue('note')
  loseReply(line, 'claim')
  const attempts = []
  await workers.drain({ note: (args, kwargs, { attempt }) => void attempts.push(attempt) }, { taskq: through() })
  assert.deepEqual(attempts, [1])
  assert.equal(await state(id), 'succeeded')
  assert.equal(line.connections, 2)
})

test('a settlement whose answer was lost is told again, and changes nothing twice', async () => {
  const { id } = await enqueue('note')
  loseReply(line, 'complete')
  const worker = workers.start({ note: () => 'done' }, { taskq: through(), burst: true })
  await worker.done
  assert.equal(await state(id), 'succeeded')
  assert.equal(await server.redis.llen(`{taskq}:log:${id}`), 1)
  assert.deepEqual(worker.log.with('was lost'), [])
})

test('a failure whose answer was lost is told again, and counts once', async () => {
  const { id } = await enqueue('fail', [], { maxAttempts: 2, backoff: SOON })
  loseReply(line, 'retry')
  workers.start({ fail: () => Promise.reject(new Error('no')) }, { taskq: through() })
  const { attempts, errors } = await workers.ended(id, 'dead')
  assert.deepEqual([attempts, errors.length], [2, 2])
})

test('a worker outlives a restart of Redis, and says so in one line each', async () => {
  const { id } = await enqueue('wait')
  const gate = new Gate()
  const begun = new Gate()
  const worker = workers.start({ wait: () => (begun.open(), gate.passed) }, { leaseMs: 30_000 })
  await begun.passed
  await server.down()
  gate.open('survived')
  await until(() => worker.log.with('trying again until it answers').length > 0)
  await server.up()
  assert.equal((await workers.ended(id)).result, 'survived')
  const next = await enqueue('wait')
  await workers.ended(next.id)
  await until(() => worker.log.with('Redis answers again after').length > 0)
  assert.equal(worker.log.with('trying again until it answers').length, 1)
  assert.equal(worker.log.with('Redis answers again after').length, 1)
})

test('all tasks of a queue end once while connections are lost all the time', async () => {
  const handles = await workers.taskq.enqueueMany(Array.from({ length: 200 }, () => ({ name: 'note' })))
  const runs = new Map()
  let replies = 0
  Object.defineProperty(line, 'replies', { get: () => ((replies += 1) % 25 === 0 ? 'cut' : 'pass') })
  workers.start({ note: (args, kwargs, { id }) => void runs.set(id, (runs.get(id) ?? 0) + 1) }, {
    taskq: through(), concurrency: 3, leaseMs: 30_000,
  })
  for (const { id } of handles) await workers.ended(id)
  assert.deepEqual([...new Set(runs.values())], [1])
})

test('a worker that starts without Redis waits for it', async () => {
  await server.down()
  const worker = workers.start({ note: () => 'late' })
  await until(() => worker.log.with('trying again').length === 1)
  await server.up()
  const { id } = await enqueue('note')
  assert.equal((await workers.ended(id)).result, 'late')
})

test('a worker that is stopped while Redis is away ends', async () => {
  const worker = workers.start({})
  await until(async () => (await server.redis.exists(`{taskq}:worker:${worker.name}`)) === 1)
  await server.down()
  await until(() => worker.log.with('trying again').length === 1)
  worker.stop()
  assert.deepEqual(await worker.done, { forced: false })
  await server.up()
})

test('a worker that Redis refuses says so and ends', async () => {
  const worker = workers.start({}, { taskq: workers.connect(server.url.replace('//', '//:wrong@')) })
  await assert.rejects(worker.done, ConfigurationError)
})

test('a settlement that Redis refuses holds up no other', async () => {
  const ids = (await workers.taskq.enqueueMany(['bad', 'good', 'good'].map((name) => ({ name })))).map(({ id }) => id)
  const taskq = meddled((exchange, settlements) => {
    if (settlements.some(({ lease }) => lease.id === ids[0])) throw new BrokerError('ERR refused')
    return exchange()
  })
  const worker = workers.start({ bad: () => 1, good: () => 2 }, { taskq, burst: true })
  await worker.done
  assert.deepEqual(await Promise.all(ids.map(state)), ['leased', 'succeeded', 'succeeded'])
  assert.equal(worker.log.with(`Redis refused the outcome of ${ids[0]}`).length, 1)
})

test('a worker in whose name another claims stops', async () => {
  const { id } = await enqueue('note')
  let child
  const worker = workers.start({ note: async () => void (child = (await run(id)).worker) })
  await workers.ended(id)
  await server.redis.hset(`{taskq}:claim:${child}`, 'nonce', '1000')
  await enqueue('note')
  await worker.done
  assert.equal(worker.log.with('another claim was made in its name').length, 1)
})

test('the presence of a worker tells of it while it serves, and goes with it', async () => {
  const gate = new Gate()
  const worker = workers.start({ wait: () => gate.passed }, { queues: ['a', 'b'], name: 'here', leaseMs: LEASE_MS })
  const { id } = await enqueue('wait', [], { queue: 'a' })
  let presence
  const tells = async (running) => {
    presence = await server.redis.hgetall('{taskq}:worker:here')
    return presence.phase === 'serving' && presence.running === running
  }
  await until(() => tells('1'))
  gate.open()
  await workers.ended(id)
  await until(() => tells('0'))
  assert.deepEqual(
    [presence.pid, presence.queues, presence.excluded, presence.children, presence.ready],
    [String(process.pid), 'a,b', '', '1', '1'],
  )
  assert.ok((await server.redis.pttl('{taskq}:worker:here')) <= 3 * LEASE_MS)
  worker.stop()
  await worker.done
  assert.deepEqual(await server.redis.hgetall('{taskq}:worker:here'), {})
})

test('a worker leaves no connection behind, also where its last words are refused', async () => {
  const connections = async () => (await server.redis.client('LIST')).trim().split('\n').length
  const gate = new Gate()
  await workers.taskq.result('none')
  const before = await connections()
  const worker = workers.start({ wait: () => gate.passed }, { concurrency: 1 })
  await until(isBlocked)
  const { id } = await workers.taskq.enqueue('wait')
  await workers.ended(id, 'leased')
  await server.redis.set('{taskq}:workers', 'of the wrong type')
  worker.stop()
  gate.open()
  await worker.done
  await until(async () => (await connections()) === before, 'its connections have ended', 5_000)
})
