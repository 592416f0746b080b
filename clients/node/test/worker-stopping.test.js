import assert from 'node:assert/strict'
import { test } from 'node:test'

import { BrokerUnavailable, WorkerStopped } from '../dist/index.js'
import { Server, until } from './server.js'
import { enqueue, Gate, heeding, isBlocked, meddled, run, server, setUp, state, workers } from './workers.js'

setUp(() => Server.own('--appendonly', 'yes'))

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
