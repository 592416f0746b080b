import assert from 'node:assert/strict'
import { test } from 'node:test'

import { OutOfMemory } from '../dist/index.js'
import { claimed, isEmpty, proxied, server, setUp, taskq } from './taskqs.js'

setUp()

test('a task whose confirmation is lost is named, and stored once when it is enqueued again', async () => {
  const [proxy, cut] = await proxied()
  await cut.enqueue('warm')
  proxy.replies = 'cut'
  const error = await cut.enqueue('t', [1]).catch((caught) => caught)
  assert.deepEqual([error.name, error.maybeStored, error.ids.length], ['EnqueueError', true, 1])
  assert.match(error.message, /^Could not enqueue \w{26}: .*\(it may have been stored\)$/)
  assert.equal(error.cause.name, 'BrokerUnavailable')
  const [id] = error.ids
  assert.deepEqual((await taskq.result(id)).args, [1])
  proxy.replies = 'pass'
  assert.equal((await cut.enqueue('t', [1], { id })).word, 'EXISTS')
  assert.equal((await claimed()).length, 2)
})

test('while Redis is away nothing is stored, and nothing later either', async () => {
  const [proxy, cut] = await proxied('cut')
  const error = await cut.enqueue('t').catch((caught) => caught)
  assert.deepEqual([error.name, error.maybeStored], ['EnqueueError', false])
  assert.match(error.message, /\(nothing was stored\)$/)
  proxy.replies = 'pass'
  await cut.result('x')
  assert.ok(await isEmpty())
})

test('a script that fails on its way may have stored a task, and one that never began has not', async () => {
  await server.redis.set('{shop}:queue:q:ready', 'no set')
  const failed = await taskq.enqueue('t', [], { queue: 'q' }).catch((caught) => caught)
  assert.deepEqual([failed.cause.name, failed.cause.maybeExecuted, failed.maybeStored], ['BrokerError', true, true])
  assert.match(failed.message, /WRONGTYPE.* \(it may have been stored\)$/)
  assert.equal(await server.redis.exists(`{shop}:task:${failed.ids[0]}`), 1)
  await server.redis.flushdb()
  await server.redis.call('ACL', 'SETUSER', 'default', '-evalsha')
  const refused = await taskq.enqueue('t').catch((caught) => caught)
  await server.redis.call('ACL', 'SETUSER', 'default', '+evalsha')
  assert.deepEqual([refused.cause.name, refused.maybeStored], ['ConfigurationError', false])
  assert.ok(await isEmpty())
})

test('of many, those that were not confirmed are named, and no more are sent', async () => {
  const [proxy, cut] = await proxied()
  await cut.enqueueMany([{ name: 'warm' }])
  proxy.replies = 'cut once'
  const tasks = Array.from({ length: 2500 }, (_, one) => ({ name: 't', args: [one] }))
  const error = await cut.enqueueMany(tasks).catch((caught) => caught)
  assert.deepEqual([error.name, error.maybeStored, error.ids.length], ['EnqueueError', true, 2500])
  assert.match(error.message, / and 2497 more: /)
  await cut.result('x')
  const length = await server.redis.zcard('{shop}:queue:default:ready')
  assert.ok(length > 1 && length <= 1001, `${length} were stored`)
})

test('of many, those are named that come after the last confirmed one, and some of them may be stored', async () => {
  const confirmed = [{ word: 'STORED', id: 'x', state: 'waiting', enqueuedAt: 1 }]
  taskq.broker.enqueue = async function* () {
    yield [confirmed[0], confirmed[0]]
    yield new OutOfMemory('it is full')
    yield confirmed
  }
  const tasks = ['A', 'B', 'C', 'D'].map((id) => ({ name: 't', id }))
  await assert.rejects(taskq.enqueueMany(tasks), { name: 'EnqueueError', ids: ['C', 'D'], maybeStored: true })
})

test('a full memory refuses what is new, and says that nothing was stored', async () => {
  await server.redis.config('SET', 'maxmemory', '1')
  try {
    const error = await taskq.enqueue('t').catch((caught) => caught)
    assert.deepEqual([error.name, error.maybeStored, error.cause.name], ['EnqueueError', false, 'OutOfMemory'])
  } finally {
    await server.redis.config('SET', 'maxmemory', '0')
  }
})
