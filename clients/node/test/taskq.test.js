import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'
import { promisify } from 'node:util'

import { Taskq } from '../dist/index.js'
import { bury, complete, retry } from '../dist/settlements.js'
import { claimed, connect, isEmpty, server, setUp, taskq } from './taskqs.js'

setUp()

const stored = async (id) => (await server.redis.get(`{shop}:task:${id}`)).split('\n\n')

test('a task is stored as Python stores it', async () => {
  const { id, word, state, enqueuedAt } = await taskq.enqueue('shop.tasks.add', [2, 'ü'], { kwargs: { a: null } })
  assert.deepEqual([word, state], ['STORED', 'waiting'])
  assert.ok(Math.abs(enqueuedAt.getTime() - Date.now()) < 5000)
  assert.match(id, /^[0-9A-HJKMNP-TV-Z]{26}$/)
  assert.deepEqual(await stored(id), [
    `${enqueuedAt.getTime()} 0 default`, '{"v":1,"name":"shop.tasks.add","args":[2,"ü"],"kwargs":{"a":null}}',
  ])
})

test('all that can be said of a task goes with it', async () => {
  const runAt = new Date(Date.now() + 60_000)
  const { id, enqueuedAt } = await taskq.enqueue('t', [], {
    queue: 'mail', priority: 5, runAt, idempotencyKey: 'order 7', idempotencyTtlMs: 5000, maxAttempts: 9, backoff: 2,
    timeoutMs: 1500.5, resultTtlMs: 0,
  })
  assert.deepEqual(await stored(id), [
    `${enqueuedAt.getTime()} 5 mail\nkey 5000 order 7`,
    `{"v":1,"name":"t","run_after":${runAt.getTime()},"max_attempts":9,` +
      '"backoff":{"base":2,"factor":1,"cap":2,"jitter":"none"},"timeout_ms":1501,"result_ttl_ms":0}',
  ])
  assert.equal((await taskq.result(id)).dueAt.getTime(), runAt.getTime())
})

test('a key is remembered for a day after its task, unless the queue says otherwise', async () => {
  const { id } = await taskq.enqueue('t', [], { idempotencyKey: 'k' })
  assert.match((await stored(id))[0], /\nkey 86400000 k$/)
  const short = await connect({ idempotencyTtlMs: 7 }).enqueue('t', [], { idempotencyKey: 'l' })
  assert.match((await stored(short.id))[0], /\nkey 7 l$/)
})

test('a delay counts on the clock of Redis, and one that is over is none', async () => {
  const later = await taskq.enqueue('t', [], { delayMs: 1000.2 })
  const { dueAt, enqueuedAt } = await taskq.result(later.id)
  assert.equal(dueAt - enqueuedAt, 1001)
  const now = await taskq.enqueue('t', [], { delayMs: -5 })
  assert.equal((await taskq.result(now.id)).dueAt, null)
})

test('of two tasks with one key the second is the first', async () => {
  const first = await taskq.enqueue('t', [1], { idempotencyKey: 'k' })
  const second = await taskq.enqueue('t', [2], { idempotencyKey: 'k' })
  assert.deepEqual(second, { ...first, word: 'TAKEN' })
  assert.deepEqual((await taskq.result(second.id)).args, [1])
})

test('a result is found under the id of a duplicate', async () => {
  const [first, second] = ['1', '2']
  await taskq.enqueue('t', [1], { idempotencyKey: 'k', id: first })
  await taskq.enqueue('t', [2], { idempotencyKey: 'k', id: second })
  assert.deepEqual((await taskq.result(second)).id, first)
})

test('many are stored in their order, in pages', async () => {
  const tasks = Array.from({ length: 1100 }, (_, one) => ({ name: 't', args: [one] }))
  await taskq.enqueueMany([])
  await server.redis.config('RESETSTAT')
  const handles = await taskq.enqueueMany(tasks)
  assert.equal(new Set(handles.map(({ id }) => id)).size, 1100)
  assert.match(await server.redis.info('commandstats'), /cmdstat_evalsha:calls=5/)
  const args = []
  for (let leases; (leases = await claimed()).length > 0; ) {
    args.push(...leases.map((lease) => lease.envelope().args[0]))
  }
  assert.deepEqual(args, tasks.map((task) => task.args[0]))
  assert.deepEqual(await taskq.enqueueMany([]), [])
})

test('many large ones are cut by their bytes', async () => {
  await server.redis.config('RESETSTAT')
  await taskq.enqueueMany(Array.from({ length: 5 }, () => ({ name: 't', args: ['x'.repeat(400_000)] })))
  assert.match(await server.redis.info('commandstats'), /cmdstat_evalsha:calls=3/)
})

test('one among many that is refused is named, and nothing is stored', async () => {
  const tasks = [{ name: 't' }, { name: 't', args: [[undefined]] }]
  const message = /^tasks\[1\]: Unsupported type: t: args\[0\]\[0\] is /
  await assert.rejects(taskq.enqueueMany(tasks), { name: 'TypeError', message })
  assert.ok(await isEmpty())
})

test('what holds no tasks is refused, for nobody would know that nothing was enqueued', async () => {
  const wrong = [[Promise.resolve([]), 'a Promise'], [{}, 'a Object'], ['t', 'a string'], [null, 'null']]
  for (const [tasks, what] of wrong) {
    const message = `enqueueMany() takes an array of tasks, or what else can be iterated, not ${what}.`
    await assert.rejects(taskq.enqueueMany(tasks), { name: 'TypeError', message })
  }
  const message = 'tasks[1]: enqueueMany() takes an object, not null.'
  await assert.rejects(taskq.enqueueMany([{ name: 't' }, null]), { name: 'TypeError', message })
  assert.ok(await isEmpty())
})

test('an error of the application goes through, also one that can not be changed', async () => {
  const error = Object.freeze(new Error('mine'))
  const args = [{ get a() { throw error } }]
  await assert.rejects(taskq.enqueueMany([{ name: 't', args }]), (thrown) => thrown === error)
  assert.ok(await isEmpty())
})

for (const [what, [args, options], name, message = /./] of [
  ['arguments that are no array', [{ 0: 1 }], 'TypeError', /^t: takes an array and an object, not /],
  ['a value without JSON', [[NaN]], 'RangeError', "Unsupported value: t: args[0] is NaN, which JSON doesn't have."],
  ['keywords that are no object', [[], { kwargs: [1] }], 'TypeError'],
  ['a keyword without JSON', [[], { kwargs: { a: new Date(0) } }], 'TypeError', /type: t: kwargs\['a'\] is /],
  ['an option that is none', [[], { delay: 5 }], 'TypeError', /^enqueue\(\) has no option 'delay'; it takes kwargs, /],
  ['a queue that is none', [[], { queue: 'a:b' }], 'InvalidName'],
  ['a priority beyond', [[], { priority: 101 }], 'InvalidName'],
  ['a priority that is none', [[], { priority: '1' }], 'InvalidName'],
  ['a BigInt for a delay', [[], { delayMs: 5n }], 'RangeError', 'delayMs must be a number of milliseconds, not 5n.'],
  ['an object as delay', [[], { delayMs: Object.create(null) }], 'RangeError', /not \[Object: null prototype\] {}.$/],
  ['no object of options', [[], null], 'TypeError', 'enqueue() takes an object, not null.'],
  ['a number of options', [[], 5], 'TypeError', 'enqueue() takes an object, not a number.'],
  ['a key of nothing', [[], { idempotencyKey: '' }], 'InvalidName'],
  ['an id that is none', [[], { id: 'a b' }], 'InvalidName'],
  ['a delay that is none', [[], { delayMs: '5' }], 'RangeError', "delayMs must be a number of milliseconds, not '5'."],
  ['a delay without end', [[], { delayMs: Infinity }], 'RangeError', 'delayMs lies beyond the year 9999.'],
  ['a moment that is none', [[], { runAt: 5 }], 'TypeError', 'runAt must be a valid Date, not 5.'],
  ['a moment of nothing', [[], { runAt: new Date(NaN) }], 'TypeError', 'runAt must be a valid Date, not Invalid Date.'],
  ['a moment too far', [[], { runAt: new Date(8.64e15) }], 'RangeError', 'runAt must lie in the years 1 to 9999.'],
  ['a moment and a delay', [[], { runAt: new Date(), delayMs: 1 }], 'TypeError', 't: give delayMs or runAt, not both.'],
  ['no attempt', [[], { maxAttempts: 0 }], 'RangeError', /^maxAttempts must be a whole number from 1 to \d+, not 0.$/],
  ['a backoff that is none', [[], { backoff: { bas: 1 } }], 'RangeError', /^backoff has no key/],
  ['a time limit of nothing', [[], { timeoutMs: 0 }], 'RangeError', /^timeoutMs must be milliseconds from 1 /],
  ['a time to live below nothing', [[], { resultTtlMs: -1 }], 'RangeError'],
  ['what is too large', [['x'.repeat(1_000_000)]], 'RangeError',
    't: the arguments take 1000030 bytes with all that goes along, and max_payload_bytes is 1000000. ' +
      'Store them elsewhere and pass a reference.'],
]) {
  test(`${what} is refused before anything is sent`, async () => {
    await assert.rejects(taskq.enqueue('t', args, options), { name, message })
    assert.ok(await isEmpty())
  })
}

test('a task without a name is refused before anything is sent', async () => {
  await assert.rejects(taskq.enqueue(''), { name: 'InvalidName' })
  await assert.rejects(taskq.enqueue(), { name: 'InvalidName' })
  assert.ok(await isEmpty())
})

test('an option of the queue that is none is refused', () => {
  assert.throws(() => new Taskq({ ns: 'x' }), { name: 'TypeError', message: /^Taskq has no option 'ns'/ })
  assert.throws(() => new Taskq({ namespace: '{x}' }), { name: 'InvalidName' })
  assert.throws(() => new Taskq({ exact: 'no' }), { name: 'TypeError', message: /^exact must be true or false/ })
  assert.throws(() => new Taskq([]), { name: 'TypeError', message: 'Taskq takes an object, not an array.' })
  // What might be a URL with a password isn't shown.
  const message = 'Taskq takes an object, not a string.'
  assert.throws(() => new Taskq('redis://:secret@localhost'), { name: 'TypeError', message })
  assert.throws(() => new Taskq({ url: 'x' }), { name: 'ConfigurationError' })
  assert.throws(() => new Taskq({ maxPayloadBytes: 0 }), { name: 'RangeError' })
  assert.throws(() => new Taskq({ idempotencyTtlMs: -1 }), { name: 'RangeError' })
  for (const replyMs of [0, 2 ** 31]) assert.throws(() => new Taskq({ replyMs }), { name: 'RangeError' })
})

test('a result shows where a task stands, from its enqueue to its end', async () => {
  const { id, enqueuedAt } = await taskq.enqueue('t', [1], { kwargs: { k: 2 }, priority: 4 })
  const waiting = await taskq.result(id)
  assert.deepEqual(waiting, {
    id, name: 't', args: [1], kwargs: { k: 2 }, queue: 'default', priority: 4, state: 'waiting', status: 'READY',
    attempts: 0, result: null, errors: [], workerIds: [], enqueuedAt, startedAt: null, finishedAt: null, dueAt: null,
  })
  const failure = { error: 'TypeError', message: 'no', traceback: 'at 1', reason: '' }
  const [first] = await claimed()
  await taskq.broker.settle(retry(first, 0, JSON.stringify(failure)))
  const [second] = await claimed()
  const running = await taskq.result(id)
  assert.deepEqual([running.status, running.attempts, running.workerIds], ['RUNNING', 2, ['w.12345678', 'w.12345678']])
  await taskq.broker.settle(complete(second, '{"result":{"sum":3}}'))
  const { status, result, errors, startedAt, finishedAt } = await taskq.result(id)
  assert.deepEqual([status, result, errors], ['SUCCESSFUL', { sum: 3 }, [failure]])
  assert.ok(startedAt >= enqueuedAt && finishedAt >= startedAt)
})

test('a dead letter shows why', async () => {
  const { id } = await taskq.enqueue('t')
  const [lease] = await claimed()
  await taskq.broker.settle(bury(lease, '{"error":"E","message":"m","traceback":"","reason":"r"}'))
  const { status, state, errors, finishedAt } = await taskq.result(id)
  const failure = { error: 'E', message: 'm', traceback: '', reason: 'r' }
  assert.deepEqual([status, state, errors], ['FAILED', 'dead', [failure]])
  assert.ok(finishedAt instanceof Date)
})

test('nothing is known of what was never there', async () => {
  for (const id of ['01M8NAAGKJ31PBY8A0SNJCX9EA', '', 'a b', '{x}', 5, undefined]) {
    assert.equal(await taskq.result(id), null)
  }
})

test('aliases that lead in a circle lead nowhere', async () => {
  await server.redis.mset('{shop}:task:A', 'alias B', '{shop}:task:B', 'alias A')
  assert.equal(await taskq.result('A'), null)
})

test('a large integer comes back as it was, and with exact so does all else', async () => {
  await server.redis.set('{shop}:task:A', '100 0 q\n\n{"v":1,"name":"t","args":[9007199254740993,1.0]}')
  assert.deepEqual((await taskq.result('A')).args, [9007199254740993n, 1])
  const [, float] = (await connect({ exact: true }).result('A')).args
  assert.equal(float.constructor.name, 'Float')
})

test('a process ends by itself once it has closed its queue', async () => {
  const program = `
    import { Taskq } from ${JSON.stringify(new URL('../dist/index.js', import.meta.url).href)}
    const taskq = new Taskq({ url: process.argv[1] })
    const { id } = await taskq.enqueue('t')
    const wait = taskq.broker.wait(['other'], 5000)
    console.log((await taskq.result(id)).status)
    await taskq.close()
    console.log(await wait)`
  const { stdout } = await promisify(execFile)(
    process.execPath, ['--input-type=module', '-e', program, server.url], { timeout: 20_000 },
  )
  assert.equal(stdout, 'READY\nnull\n')
})
