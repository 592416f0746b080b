import assert from 'node:assert/strict'
import { test } from 'node:test'

import { Bury, Float, Retry, Worker } from '../dist/index.js'
import { until } from './server.js'
import { enqueue, Gate, Lines, run, server, setUp, SOON, workers } from './workers.js'

setUp()

test('a task is called with its arguments, and what it returns is the result', async () => {
  const { id } = await enqueue('add', [2, 3], { kwargs: { by: 10 } })
  await workers.drain({ add: async ([a, b], { by }) => ({ sum: a + b + by }) })
  const result = await workers.taskq.result(id)
  assert.equal(result.status, 'SUCCESSFUL')
  assert.deepEqual(result.result, { sum: 15 })
  assert.equal(result.attempts, 1)
})

test('a function that is not async, and one that returns nothing, do as well', async () => {
  const [first, second] = await Promise.all([enqueue('plain'), enqueue('nothing')])
  await workers.drain({ plain: () => 'done', nothing: () => {} })
  assert.equal((await workers.taskq.result(first.id)).result, 'done')
  const { state, result } = await workers.taskq.result(second.id)
  assert.deepEqual([state, result], ['succeeded', null])
})

test('the context tells of the record, the attempt and its lease', async () => {
  const { id } = await enqueue('look', [], { idempotencyKey: 'k' })
  let seen
  const worker = workers.start({ look: (args, kwargs, context) => (seen = context) }, { burst: true })
  await worker.done
  assert.deepEqual(
    [seen.id, seen.name, seen.queue, seen.attempt, seen.idempotencyKey, seen.leaseLost, seen.cancelRequested],
    [id, 'look', 'default', 1, 'k', false, false],
  )
  assert.equal(String(seen.fencingToken), (await run(id)).token)
  assert.equal(seen.taskq, workers.taskq)
  assert.match((await run(id)).worker, new RegExp(`^${worker.name}\\.[a-z0-9]{8}$`))
})

test('a task enqueues others through its context', async () => {
  await enqueue('parent')
  const seen = []
  await workers.drain({
    parent: (args, kwargs, { taskq }) => taskq.enqueue('child', ['of parent']),
    child: ([text]) => void seen.push(text),
  })
  assert.deepEqual(seen, ['of parent'])
})

test('arguments and results are exact where the queue is asked to be', async () => {
  const taskq = workers.connect(server.url, { exact: true })
  const { id } = await taskq.enqueue('echo', [new Float(1), new Map([['2', 'b'], ['1', 'a']]), 2n ** 60n])
  await workers.drain({ echo: (args) => args }, { taskq })
  const { result } = await taskq.result(id)
  assert.deepEqual(result, [new Float(1), new Map([['2', 'b'], ['1', 'a']]), 2n ** 60n])
})

test('as many run at once as were asked for, and no more', async () => {
  await workers.taskq.enqueueMany(Array.from({ length: 10 }, () => ({ name: 'wait' })))
  const gate = new Gate()
  let running = 0
  let most = 0
  const worker = workers.start({
    wait: async () => {
      most = Math.max(most, (running += 1))
      await gate.passed
      running -= 1
    },
  }, { concurrency: 4, burst: true })
  await until(() => running === 4)
  assert.equal(await server.redis.zcard('{taskq}:queue:default:leased'), 4)
  gate.open()
  await worker.done
  assert.equal(most, 4)
})

test('one that ends makes room for the next, while others run on', async () => {
  const gate = new Gate()
  const seen = []
  workers.start({ slow: () => gate.passed, quick: ([number]) => void seen.push(number) }, { concurrency: 2 })
  await enqueue('slow')
  await workers.taskq.enqueueMany(Array.from({ length: 20 }, (_, number) => ({ name: 'quick', args: [number] })))
  await until(() => seen.length === 20)
  gate.open()
})

test('queues are served in their order, and within one the larger priority first', async () => {
  const tasks = [['low', 'b'], ['high', 'b', 5], ['first', 'a']]
  for (const [name, queue, priority = 0] of tasks) await enqueue('note', [name], { queue, priority })
  const seen = []
  await workers.drain({ note: ([name]) => void seen.push(name) }, { queues: ['a', 'b'], concurrency: 1 })
  assert.deepEqual(seen, ['first', 'high', 'low'])
})

test('a delayed task runs at its time, though nothing else is enqueued', async () => {
  const seen = []
  workers.start({ note: () => void seen.push(Date.now()) })
  const { enqueuedAt } = await enqueue('note', [], { delayMs: 300 })
  await until(() => seen.length === 1)
  const late = seen[0] - enqueuedAt.getTime() - 300
  assert.ok(late >= 0 && late < 2_000, `${late} ms late`)
})

test('a worker that waits is woken by an enqueue, long before its wait is over', async () => {
  const gate = new Gate()
  const worker = workers.start({ note: () => gate.open(performance.now()) })
  await until(async () => (await server.redis.client('LIST')).includes('cmd=bzpopmin'))
  const begun = performance.now()
  await enqueue('note')
  assert.ok((await gate.passed) - begun < 2_000)
  worker.stop()
})

test('of tasks with one idempotency key the first is run, and the others lead to it', async () => {
  const first = await enqueue('count', [], { idempotencyKey: 'once' })
  const second = await enqueue('count', [], { idempotencyKey: 'once' })
  assert.deepEqual([second.word, second.id], ['TAKEN', first.id])
  let count = 0
  await workers.drain({ count: () => (count += 1) })
  assert.equal(count, 1)
})

test('a task that fails is tried again by its policy, until its attempts are used up', async () => {
  const { id } = await enqueue('fail', ['x'], { maxAttempts: 3, backoff: SOON })
  const attempts = []
  const worker = workers.start({
    fail: ([text], kwargs, { attempt }) => {
      attempts.push(attempt)
      throw new RangeError(`no ${text}`)
    },
  })
  const { errors, status } = await workers.ended(id, 'dead')
  assert.deepEqual(attempts, [1, 2, 3])
  assert.equal(status, 'FAILED')
  assert.deepEqual(errors.map(({ error, message }) => [error, message]), Array(3).fill(['RangeError', 'no x']))
  assert.match(errors[0].traceback, /^RangeError: no x\n {4}at .*worker\.test\.js/)
  assert.doesNotMatch(errors[0].traceback, /dist\/worker/)
  assert.equal(worker.log.with(`Attempt 3 of ${id} (fail) failed, no other follows: RangeError: no x`).length, 1)
})

test('the delay of a retry is that of its policy', async () => {
  const { id } = await enqueue('fail', [], { backoff: { base: 40, factor: 3, cap: 1000, jitter: 'none' } })
  await workers.drain({ fail: () => Promise.reject(new Error('no')) })
  const { dueAt, finishedAt, state } = await workers.taskq.result(id)
  assert.equal(state, 'waiting')
  assert.equal(finishedAt, null)
  const [log] = await server.redis.lrange(`{taskq}:log:${id}`, 0, 0)
  assert.equal(dueAt.getTime(), Number(log.split(' ')[3]) + 40_000)
})

test('what a task throws is recorded, whatever it is', async () => {
  class Odd extends Error {}
  const hostile = new Error('x')
  Object.defineProperty(hostile, 'message', { get: () => { throw new Error('no') } })
  const thrown = { text: 'just text', nothing: undefined, odd: new Odd('odd'), hostile, bare: Object.create(null) }
  const ids = {}
  for (const name of Object.keys(thrown)) ids[name] = (await enqueue(name, [], { maxAttempts: 1 })).id
  await workers.drain(Object.fromEntries(Object.entries(thrown).map(([name, what]) => [name, () => { throw what }])))
  const said = {}
  for (const [name, id] of Object.entries(ids)) {
    const [{ error, message }] = (await workers.ended(id, 'dead')).errors
    said[name] = [error, message]
  }
  assert.deepEqual(said, {
    text: ['string', "'just text'"],
    nothing: ['undefined', 'undefined'],
    odd: ['Odd', 'odd'],
    hostile: ['Error', "(it can't be shown)"],
    bare: ['Error', '[Object: null prototype] {}'],
  })
})

test('what can not even be looked at is a failed attempt, and another follows', async () => {
  const { proxy, revoke } = Proxy.revocable({}, {})
  revoke()
  const { id } = await enqueue('fail', [], { maxAttempts: 2, backoff: SOON })
  const worker = workers.start({ fail: () => { throw proxy } })
  const { errors } = await workers.ended(id, 'dead')
  assert.deepEqual(errors.map(({ reason }) => reason), ['', ''])
  assert.deepEqual(worker.log.with('outside the task'), [])
})

test('the causes of an error are in its traceback', async () => {
  const { id } = await enqueue('fail', [], { maxAttempts: 1 })
  await workers.drain({ fail: () => { throw new Error('outer', { cause: new TypeError('inner') }) } })
  const [{ traceback }] = (await workers.ended(id, 'dead')).errors
  assert.match(traceback, /^Error: outer\n[^]*\ncaused by TypeError: inner\n/)
})

test('Retry chooses the delay of the next attempt, and Bury that there is none', async () => {
  const later = await enqueue('later')
  const never = await enqueue('never')
  await workers.drain({
    later: () => { throw new Retry(60_000) },
    never: () => { throw new Bury('of no use', 'invalid') },
  })
  const [log] = await server.redis.lrange(`{taskq}:log:${later.id}`, 0, 0)
  assert.equal((await workers.taskq.result(later.id)).dueAt.getTime(), Number(log.split(' ')[3]) + 60_000)
  const [error] = (await workers.ended(never.id, 'dead')).errors
  assert.deepEqual([error.error, error.message, error.reason], ['Bury', 'of no use', 'invalid'])
})

test('Retry makes no attempt of one that has none left', async () => {
  const { id } = await enqueue('later', [], { maxAttempts: 1 })
  await workers.drain({ later: () => { throw new Retry(0) } })
  assert.equal((await workers.taskq.result(id)).state, 'dead')
})

test('a result that is too large or no JSON is a failed attempt that says so', async () => {
  const taskq = workers.connect(server.url, { maxPayloadBytes: 1_000 })
  const large = await enqueue('large', [], { maxAttempts: 1 })
  const odd = await enqueue('odd', [], { maxAttempts: 1 })
  await workers.drain({ large: () => 'é'.repeat(600), odd: () => ({ at: [new Date()] }) }, { taskq })
  const [tooLarge] = (await workers.ended(large.id, 'dead')).errors
  const said =
    'The result of large takes 1213 bytes, and max_payload_bytes is 1000. Store it elsewhere and return a reference.'
  assert.equal(tooLarge.message, said)
  const [noJson] = (await workers.ended(odd.id, 'dead')).errors
  assert.match(noJson.message, /^Unsupported type: The result of odd\['at'\]\[0\] is a Date/)
})

test('text that is none does not undo what a task has done', async () => {
  const { id } = await enqueue('half')
  await workers.drain({ half: () => 'a\ud800b' })
  assert.equal((await workers.taskq.result(id)).result, 'a\\ud800b')
})

test('a result is kept for as long as its task says, and with 0 not at all', async () => {
  const none = await enqueue('give', [], { resultTtlMs: 0 })
  const some = await enqueue('give', [], { resultTtlMs: 3_600_000 })
  await workers.drain({ give: () => 'secret' })
  assert.match((await server.redis.lrange(`{taskq}:log:${none.id}`, 0, 0))[0], / \{\}$/)
  const ttl = await server.redis.pttl(`{taskq}:log:${some.id}`)
  assert.ok(ttl > 3_500_000 && ttl <= 3_600_000)
})

test('a burst ends when nothing is left to do, and leaves what is due later', async () => {
  await workers.taskq.enqueueMany(Array.from({ length: 250 }, () => ({ name: 'note' })))
  const later = await enqueue('note', [], { delayMs: 60_000 })
  let count = 0
  assert.deepEqual(await workers.drain({ note: () => void (count += 1) }), { forced: false })
  assert.equal(count, 250)
  assert.equal((await workers.taskq.result(later.id)).state, 'waiting')
})

test('a worker runs once', async () => {
  const worker = workers.start({}, { burst: true })
  await worker.done
  await assert.rejects(worker.run(), /runs once/)
})

test('what a worker can not be is refused when it is made', () => {
  const good = { queues: ['a'], tasks: {} }
  const made = (wrong) => new Worker(workers.taskq, { ...good, ...wrong })
  const refused = (wrong) => assert.throws(() => made(wrong), JSON.stringify(wrong))
  for (const wrong of [
    { queue: 'a' }, { queues: [] }, { queues: 'a' }, { queues: ['a:b'] }, { tasks: { a: 1 } }, { tasks: null },
    { concurrency: 0 }, { concurrency: 1.5 }, { leaseMs: 249 }, { leaseMs: 86_400_001 }, { shutdownMs: -1 },
    { name: 'a b' }, { name: 'x'.repeat(56) }, { unknownTtlMs: NaN }, { burst: 'no' }, { log: null }, { log: {} },
    { tasks: new Map([['a', () => 1]]) }, { tasks: [() => 1] }, { tasks: new (class { a() {} })() },
  ]) refused(wrong)
  new Worker(workers.taskq, { ...good, name: undefined })
  assert.throws(() => new Worker(workers.taskq), { message: 'Worker takes an object, not undefined.' })
  const message = 'Worker takes a Taskq, and then its options.'
  for (const taskq of [undefined, good, server.url]) assert.throws(() => new Worker(taskq, good), { message })
})

test('what a worker can not be told is refused', async () => {
  const worker = new Worker(workers.taskq, { queues: ['a'], tasks: {}, burst: true, log: new Lines() })
  await assert.rejects(worker.run({ signal: true }), /^TypeError: run\(\) has no option 'signal'; it takes signals\.$/)
  assert.throws(() => worker.stop({ force: true }), /^TypeError: stop\(\) has no option 'force'; it takes now\.$/)
  assert.deepEqual(await worker.run(), { forced: false })
})

test('workers of one process that nobody named are told apart', () => {
  const [one, other] = [1, 2].map(() => new Worker(workers.taskq, { queues: ['a'], tasks: {} }).name)
  assert.notEqual(one, other)
})

test('a log that fails fails no task', async () => {
  const fails = () => {
    throw new Error('no log')
  }
  const { id } = await workers.taskq.enqueue('bad', [], { maxAttempts: 2, backoff: SOON })
  const log = { info: fails, warn: fails, error: fails }
  const worker = workers.start({ bad: () => Promise.reject(new Error('no')) }, { log })
  const { errors } = await workers.ended(id, 'dead')
  assert.deepEqual(errors.map(({ message, reason }) => [message, reason]), [['no', ''], ['no', '']])
  worker.stop()
  assert.deepEqual(await worker.done, { forced: false })
})
