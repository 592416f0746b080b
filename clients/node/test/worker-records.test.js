// What a worker does with records that it can't run, and with time limits.
import assert from 'node:assert/strict'
import { test } from 'node:test'

import { TaskTimeout } from '../dist/index.js'
import { until } from './server.js'
import { enqueue, Gate, run, server, setUp, SOON, workers } from './workers.js'

const LEASE_MS = 300

setUp()

const task = (id) => server.redis.get(`{taskq}:task:${id}`)

/** Store a record whose text is another than was enqueued. */
async function stored(change, options = {}) {
  const { id } = await enqueue('note', [], options)
  await server.redis.set(`{taskq}:task:${id}`, change(await task(id)))
  return id
}

const withRow = (text) => text.replace('\n', '\nrecord default\n')
const atomic = (text) => text.replace('{', '{"atomic":"default",')
const later = (text) => text.replace('"v":1', '"v":2')

/** Check that a record went back for others, with its attempt. */
async function assertReleased(id, releases = '1') {
  const { state, attempts, releases: counted, unknown_since: since } = await run(id)
  assert.deepEqual([state, attempts, counted], ['waiting', '0', releases])
  assert.ok(Number(since) > 0)
  assert.equal(await server.redis.exists(`{taskq}:log:${id}`), 0)
}

test('a name that nobody here knows goes back with its attempt, for 5 s and then for longer', async () => {
  const { id } = await enqueue('elsewhere')
  const worker = workers.start({ note: () => 1 }, { burst: true })
  await worker.done
  await assertReleased(id)
  const delay = (await server.redis.zscore('{taskq}:queue:default:scheduled', id)) - (await run(id)).unknown_since
  assert.equal(delay, 5_000)
  assert.equal(worker.log.with(`No task 'elsewhere' is known here: ${id} goes back for 5 s`).length, 1)
  await workers.taskq.broker.run('promote', [id])
  await workers.drain({})
  await assertReleased(id, '2')
  const dueAt = await server.redis.zscore('{taskq}:queue:default:scheduled', id)
  assert.ok(dueAt - (await run(id)).unknown_since >= 10_000)
})

test('what every object has is no task', async () => {
  const names = ['constructor', 'toString', '__proto__', 'hasOwnProperty']
  const handles = await workers.taskq.enqueueMany(names.map((name) => ({ name })))
  await workers.drain({})
  for (const { id } of handles) await assertReleased(id)
})

test('a task may be called as every object calls something, if it is given so', async () => {
  const { id } = await enqueue('__proto__')
  await workers.drain({ ['__proto__']: () => 'mine' })
  assert.equal((await workers.taskq.result(id)).result, 'mine')
})

test('a name that nobody knew for too long is buried', async () => {
  const { id } = await enqueue('elsewhere')
  await workers.drain({}, { unknownTtlMs: 0 })
  const [error] = (await workers.ended(id, 'dead')).errors
  assert.deepEqual([error.error, error.reason], ['UnknownTask', 'unknown task'])
  assert.equal(error.message, "No task 'elsewhere' is known here, nor was it elsewhere.")
})

test('a record of a later version goes back for those who can read it', async () => {
  const id = await stored(later)
  await workers.drain({ note: () => 1 })
  await assertReleased(id)
})

test('a record whose effects belong to a database is left to others, however long that takes', async () => {
  const ids = [await stored(withRow), await stored(atomic), await stored(withRow)]
  await server.redis.set(`{taskq}:task:${ids[2]}`, (await task(ids[2])).replace('{', 'no JSON'))
  await workers.drain({ note: () => assert.fail('it ran') }, { unknownTtlMs: 0 })
  for (const id of ids) await assertReleased(id)
})

test('a record that can not be read is buried, with its bytes kept', async () => {
  const id = await stored((text) => text.replace('{', 'no JSON'))
  const before = await task(id)
  const next = await enqueue('note')
  await workers.drain({ note: () => 1 })
  const [error] = (await workers.ended(id, 'dead')).errors
  assert.deepEqual([error.error, error.reason], ['UnreadableRecord', 'unreadable record'])
  assert.equal(await task(id), before)
  await workers.ended(next.id)
})

test('a reaper leaves to others what belongs to a database, and buries what can not be read', async () => {
  const kept = []
  for (const change of [withRow, atomic]) {
    kept.push(await stored(change, { queue: 'other' }))
    await workers.claimAsGone(250, 'other')
  }
  const unreadable = await stored((text) => text.replace('{', 'no JSON'), { queue: 'other' })
  await workers.claimAsGone(250, 'other')
  const plain = await enqueue('note', [], { queue: 'other' })
  await workers.claimAsGone(250, 'other')
  workers.start({}, { leaseMs: LEASE_MS })
  await workers.ended(plain.id, 'waiting')
  const [{ reason }] = (await workers.ended(unreadable, 'dead')).errors
  assert.equal(reason, 'lease expired')
  for (const id of kept) assert.equal((await run(id)).state, 'leased')
})

test('a lapsed lease of a record of a later version is tried again, for those who can read how often', async () => {
  const id = await stored(later, { maxAttempts: 1, queue: 'other' })
  await workers.claimAsGone(250, 'other')
  workers.start({}, { leaseMs: LEASE_MS })
  await workers.ended(id, 'waiting')
  assert.equal((await run(id)).attempts, '1')
})

test('a reaper goes past thousands that are left to others', async () => {
  const count = 3_000
  await Promise.all(Array.from({ length: count }, () => stored(withRow, { queue: 'other' })))
  for (let nonce = 1; nonce <= 3; nonce += 1) {
    await workers.taskq.broker.claim({ child: 'gone.12345678', nonce, count: 1_000, leaseMs: 250, queues: ['other'] })
  }
  const plain = await enqueue('note', [], { queue: 'other' })
  await workers.claimAsGone(250, 'other')
  workers.start({}, { leaseMs: LEASE_MS })
  await workers.ended(plain.id, 'waiting')
})

test('a task beyond its time limit hears of it by its signal, and fails with what it says', async () => {
  const { id } = await enqueue('wait', [], { timeoutMs: 50, maxAttempts: 1 })
  let aborted
  workers.start({
    wait: (args, kwargs, { signal }) => new Promise((resolve, reject) => {
      signal.addEventListener('abort', () => reject((aborted = signal.reason)))
    }),
  })
  const [error] = (await workers.ended(id, 'dead')).errors
  assert.ok(aborted instanceof TaskTimeout)
  assert.deepEqual(
    [error.error, error.message, error.reason],
    ['TaskTimeout', 'The task ran longer than its time limit.', ''],
  )
})

test('a task that returns within the grace after its limit keeps its result', async () => {
  const { id } = await enqueue('wait', [], { timeoutMs: 50 })
  workers.start({
    wait: (args, kwargs, { signal }) => new Promise((resolve) => {
      signal.addEventListener('abort', () => resolve('in time'))
    }),
  })
  assert.equal((await workers.ended(id)).result, 'in time')
})

test('a task that does not heed its limit has failed after the grace, and its place is free', async () => {
  const { id } = await enqueue('hang', [], { timeoutMs: 20, maxAttempts: 2, backoff: SOON })
  const other = await enqueue('quick')
  const late = new Gate()
  workers.start({ hang: () => late.passed, quick: () => 1 }, { concurrency: 1, timeoutGraceMs: 20 })
  const [error] = (await workers.ended(id, 'dead')).errors
  assert.deepEqual(
    [error.error, error.message, error.reason],
    ['TaskTimeout', 'The task ran longer than its time limit.', 'time limit'],
  )
  await workers.ended(other.id)
  const before = await run(id)
  late.open('too late')
  await late.passed
  const next = await enqueue('quick')
  await workers.ended(next.id)
  assert.deepEqual(await run(id), before)
})

test('a time limit that no timer of Node.js reaches is no limit of a moment', async () => {
  const { id } = await enqueue('look', [], { timeoutMs: 2 ** 40 })
  const gate = new Gate()
  const contexts = {}
  workers.start({ look: (args, kwargs, context) => ((contexts[context.id] = context), gate.passed) })
  const other = await enqueue('look', [], { timeoutMs: 20 })
  await until(() => contexts[other.id]?.signal.aborted)
  assert.equal(contexts[id].signal.aborted, false)
  gate.open()
  await workers.ended(id)
})
