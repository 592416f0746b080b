import assert from 'node:assert/strict'
import { afterEach, beforeEach, test } from 'node:test'

import {
  BrokerError, BrokerUnavailable, CancelRequested, ConfigurationError, LeaseLost, WorkerStopped,
} from '../dist/index.js'
import { Proxy as Line, Server, until } from './server.js'
import { enqueue, Gate, loseReply, run, server, setUp, SOON, workers } from './workers.js'

const LEASE_MS = 300

setUp(() => Server.own('--appendonly', 'yes'))

let line
beforeEach(async () => (line = await Line.start(server.port)))
afterEach(() => line.stop())

const state = async (id) => (await workers.taskq.result(id)).state
/** Whether a client waits in BZPOPMIN. */
const isBlocked = async () => / flags=b /.test(await server.redis.client('LIST'))
const through = () => workers.connect(line.url)

/** Return a queue for a worker between which and Redis something stands. */
function meddled(meddle) {
  const taskq = workers.connect()
  const broker = taskq.broker.sibling(5_000)
  const exchange = broker.exchange.bind(broker)
  broker.exchange = async (settlements, claim) => meddle(() => exchange(settlements, claim), settlements, claim)
  taskq.broker.sibling = () => broker
  return taskq
}

/** Return a task that shows its context, and runs until its signal is aborted, which it heeds. */
function heeding() {
  const begun = new Gate()
  const task = (args, kwargs, context) => {
    begun.open(context)
    return new Promise((resolve, reject) => {
      context.signal.addEventListener('abort', () => reject(context.signal.reason))
    })
  }
  return { begun: begun.passed, task }
}

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

test('a worker that stops claims no more, waits for what runs, and wakes another', async () => {
  const { id } = await enqueue('wait')
  const gate = new Gate()
  const begun = new Gate()
  const worker = workers.start({ wait: () => (begun.open(), gate.passed) }, { concurrency: 1 })
  await begun.passed
  const left = await enqueue('wait')
  await server.redis.del('{taskq}:queue:default:wake')
  worker.stop()
  await until(async () => (await server.redis.exists('{taskq}:queue:default:wake')) === 1)
  gate.open()
  assert.deepEqual(await worker.done, { forced: false })
  assert.deepEqual([await state(id), await state(left.id)], ['succeeded', 'waiting'])
})

test('a worker that stops waits for no work beside what still runs', async () => {
  await enqueue('wait')
  const gate = new Gate()
  const worker = workers.start({ wait: () => gate.passed }, { concurrency: 2 })
  await until(isBlocked)
  const begun = performance.now()
  worker.stop()
  await until(async () => !(await isBlocked()))
  assert.ok(performance.now() - begun < 2_000)
  gate.open()
})

test('a worker that is woken with no place free wakes another', async () => {
  const gate = new Gate()
  const begun = new Gate()
  workers.start({ wait: () => (begun.open(), gate.passed) }, { concurrency: 1 })
  await enqueue('wait', [], { delayMs: 100 })
  await begun.passed
  // The wait that stood when the task was due stands still.
  assert.equal(await isBlocked(), true)
  await enqueue('wait')
  await until(async () => !(await isBlocked()) && (await server.redis.exists('{taskq}:queue:default:wake')) === 1)
  gate.open()
})

test('a worker that stops now gives back what runs with its attempt, after its signal said so', async () => {
  const { id } = await enqueue('wait')
  const { begun, task } = heeding()
  const worker = workers.start({ wait: task })
  const context = await begun
  const [place] = (await run(id)).score.split(' ')
  worker.stop({ now: true })
  assert.deepEqual(await worker.done, { forced: true })
  assert.ok(context.signal.reason instanceof WorkerStopped)
  assert.deepEqual([(await run(id)).state, (await run(id)).attempts], ['waiting', '0'])
  assert.equal(await server.redis.zscore('{taskq}:queue:default:ready', id), place)
  assert.equal(await server.redis.exists(`{taskq}:log:${id}`), 0)
})

test('what does not heed its signal is given back when the grace is over', async () => {
  const { id } = await enqueue('wait')
  const begun = new Gate()
  const worker = workers.start({ wait: () => (begun.open(), new Promise(() => {})) }, { shutdownMs: 50 })
  await begun.passed
  worker.stop()
  assert.deepEqual(await worker.done, { forced: true })
  assert.deepEqual([(await run(id)).state, (await run(id)).attempts], ['waiting', '0'])
})

test('what a claim brings when its worker has been told to stop goes back', async () => {
  const { id } = await enqueue('wait')
  const claimed = new Gate()
  const gate = new Gate()
  const worker = workers.start({ wait: () => assert.fail('it ran') }, {
    taskq: meddled(async (exchange) => {
      const answer = await exchange()
      if (answer.claimed?.leases.length) {
        claimed.open()
        await gate.passed
      }
      return answer
    }),
  })
  await claimed.passed
  worker.stop()
  gate.open()
  assert.deepEqual(await worker.done, { forced: false })
  assert.deepEqual([(await run(id)).state, (await run(id)).attempts], ['waiting', '0'])
})

test('what a claim leased whose answer was lost goes back when its worker is told to stop', async () => {
  const { id } = await enqueue('wait')
  const worker = workers.start({ wait: () => assert.fail('it ran') }, {
    taskq: meddled(async (exchange) => {
      const answer = await exchange()
      if (!answer.claimed?.leases.length || worker.isTold) return answer
      worker.isTold = true
      worker.stop()
      throw new BrokerUnavailable('the answer was lost', true)
    }),
  })
  assert.deepEqual(await worker.done, { forced: false })
  assert.deepEqual([(await run(id)).state, (await run(id)).attempts], ['waiting', '0'])
})

test('a worker whose own loop fails gives back what runs, and its run rejects', async () => {
  const { id } = await enqueue('wait')
  const { begun, task } = heeding()
  let fails = false
  const worker = workers.start({ wait: task }, {
    taskq: meddled((exchange) => {
      if (!fails) return exchange()
      fails = false
      throw new TypeError('a fault of ours')
    }),
  })
  await begun
  fails = true
  await enqueue('other')
  await assert.rejects(worker.done, /a fault of ours/)
  assert.deepEqual([(await run(id)).state, (await run(id)).attempts], ['waiting', '0'])
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
