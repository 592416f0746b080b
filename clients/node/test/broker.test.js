import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { after, afterEach, before, beforeEach, test } from 'node:test'

import { Broker } from '../dist/broker.js'
import { load, names } from '../dist/scripts.js'
import { bury, complete, release, retry } from '../dist/settlements.js'
import { Proxy, Server, until } from './server.js'

/** As `docs/reference/redis.md` has them. */
const RIGHTS = [
  'ping', 'eval', 'evalsha', 'bzpopmin', 'time', 'get', 'set', 'getrange', 'strlen', 'del', 'exists', 'pttl',
  'pexpire', 'pexpireat', 'hmget', 'hgetall', 'hset', 'hdel', 'rpush', 'lrange', 'lindex', 'ltrim', 'sadd', 'smembers',
  'zadd', 'zrem', 'zcard', 'zcount', 'zscore', 'zrange', 'zrevrange', 'zrangebyscore', 'zremrangebyscore',
]
const CHILD = 'w.12345678'

let server
let broker
const others = []
before(async () => {
  server = await Server.own()
  // A script that isn't known runs after its neighbours.
  for (const name of names()) await server.redis.script('LOAD', load(name).text)
})
beforeEach(async () => {
  await server.flush()
  broker = new Broker(server.url, 'b')
})
afterEach(async () => {
  await broker.close()
  for (const one of others.splice(0)) await one.stop()
})
after(async () => server.stop())

function record(id, more = {}) {
  const envelope = Buffer.from('{"v":1,"name":"t"}')
  return { id, queue: 'q', envelope, priority: 0, delayMs: 0, atMs: 0, key: null, keyTtlMs: 0, ...more }
}

async function store(...records) {
  const stored = []
  for await (const page of broker.enqueue(records)) {
    if (page instanceof Error) throw page
    stored.push(...page)
  }
  return stored
}

let nonce = 0
function claim(count, more = {}) {
  nonce += 1
  return broker.claim({ child: CHILD, nonce, count, leaseMs: 30_000, queues: ['q'], ...more })
}

const stateOf = async (id) => (await broker.read(id)).state

test('a record is stored, claimed with its deadline, and completed', async () => {
  const [{ word, id, state, enqueuedAt }] = await store(record('A', { priority: 7 }))
  assert.deepEqual([word, id, state], ['STORED', 'A', 'waiting'])
  const asked = performance.now()
  const { leases, nextDueMs, stale } = await claim(5)
  assert.deepEqual([leases.length, nextDueMs, stale], [1, null, false])
  const [lease] = leases
  assert.deepEqual([lease.id, lease.queue, lease.attempt, lease.releases, lease.unknownMs], ['A', 'q', 1, 0, null])
  assert.deepEqual([lease.head.enqueuedAt, lease.head.priority, lease.envelope().name], [enqueuedAt, 7, 't'])
  assert.ok(lease.deadline >= asked + 30_000 && lease.deadline <= performance.now() + 30_000)
  assert.ok(lease.token >= enqueuedAt)
  assert.equal(await broker.settle(complete(lease, '{"result":1}')), 'DONE')
  assert.equal(await broker.settle(complete(lease, '{"result":1}')), 'ALREADY')
  assert.equal(await stateOf('A'), 'succeeded')
})

test('a claim that was overtaken says so, and one that is repeated gives the same leases', async () => {
  await store(record('A'), record('B'))
  const first = await claim(1)
  const repeated = await claim(1, { nonce })
  const shown = ({ leases }) => leases.map(({ id, token }) => [id, token])
  assert.deepEqual(shown(repeated), shown(first))
  await claim(1)
  assert.deepEqual(await claim(1, { nonce: 1 }), { leases: [], nextDueMs: null, stale: true })
})

test('a claim tells in how many ms the next record is due', async () => {
  await store(record('A', { delayMs: 60_000 }))
  const { leases, nextDueMs } = await claim(1)
  assert.equal(leases.length, 0)
  assert.ok(nextDueMs > 55_000 && nextDueMs <= 60_000)
})

test('settlements of all kinds go with a claim in one round trip, and each gets its own word', async () => {
  await store(...['A', 'B', 'C', 'D', 'E'].map((id) => record(id)))
  const { leases: [a, b, c, d, e] } = await claim(5)
  await store(record('F'))
  const settlements = [
    release(a), bury(b, '{"error":"E"}'), complete({ ...c, token: 1 }, '{}'), retry(d, 60_000, '{"error":"E"}'),
    complete(e, '{}'), release({ ...a, token: 1 }),
  ]
  nonce += 1
  const next = { child: CHILD, nonce, count: 1, leaseMs: 1000, queues: ['q'] }
  const { words, claimed } = await broker.exchange(settlements, next)
  assert.deepEqual(words, ['DONE', 'DONE', 'LEASE_LOST', 'DONE', 'DONE', 'LEASE_LOST'])
  assert.deepEqual(claimed.leases.map(({ id }) => id), ['A'])
  assert.deepEqual(await Promise.all(['B', 'D', 'E'].map(stateOf)), ['dead', 'waiting', 'succeeded'])
})

test('settlements beyond what one call takes are cut, and keep their words', async () => {
  await store(...Array.from({ length: 1200 }, (_, one) => record(`A${one}`)))
  const leases = []
  while (leases.length < 1200) leases.push(...(await claim(600)).leases)
  const settlements = leases.map((lease, one) => complete(one % 3 ? lease : { ...lease, token: 1 }, '{}'))
  await server.redis.config('RESETSTAT')
  const { words, claimed } = await broker.exchange(settlements)
  assert.equal(claimed, null)
  assert.deepEqual(words, settlements.map((_, one) => (one % 3 ? 'DONE' : 'LEASE_LOST')))
  assert.match(await server.redis.info('commandstats'), /cmdstat_evalsha:calls=2/)
})

test('nothing to settle and nothing to claim sends nothing', async () => {
  assert.deepEqual(await broker.exchange([]), { words: [], claimed: null })
})

test('a release gives the attempt back, and may delay the next and say that the name is unknown', async () => {
  await store(record('A'))
  const { leases: [lease] } = await claim(1)
  await broker.settle(release(lease, { unknown: true }))
  const { leases: [again] } = await claim(1)
  assert.deepEqual([again.attempt, again.releases], [1, 1])
  assert.ok(again.token > lease.token && again.unknownMs >= 0)
  await broker.settle(release(again, { delayMs: 50_000 }))
  const { attempts, history, dueAt } = await broker.read('A')
  assert.deepEqual([attempts, history.length], [0, 0])
  assert.ok(dueAt > again.claimedAt + 49_000)
})

test('leases are renewed, however many', async () => {
  await store(...Array.from({ length: 1100 }, (_, one) => record(`A${one}`)))
  const leases = []
  while (leases.length < 1100) leases.push(...(await claim(600)).leases)
  await broker.run('cancel', [0, leases[1050].id])
  const words = await broker.renew([...leases, { id: 'none', queue: 'q', token: 1 }], 60_000)
  const expected = leases.map((_, one) => (one === 1050 ? 'CANCEL' : 'OK'))
  assert.deepEqual(words, [...expected, 'LOST'])
})

test('lapsed leases are read with what a reaper needs, besides some', async () => {
  await store(record('A'), record('B'))
  await claim(2, { leaseMs: 1 })
  await broker.run('cancel', [0, 'B'])
  await until(async () => (await broker.expired(['q'])).leases.length === 2)
  const { leases, nextLapseMs } = await broker.expired(['q', 'r'])
  assert.deepEqual(leases.map(({ id, cancelRequested }) => [id, cancelRequested]), [['A', false], ['B', true]])
  assert.equal(nextLapseMs, null)
  assert.deepEqual((await broker.expired(['q'], 100, ['A'])).leases.map(({ id }) => id), ['B'])
  assert.deepEqual((await broker.expired(['q'], 1)).leases.map(({ id }) => id), ['A'])
  assert.equal(await broker.settle(bury(leases[0], '{"error":"E"}', true)), 'DONE')
})

test('the presence of a worker is written and taken away', async () => {
  assert.equal(await broker.heartbeat('w', { host: 'h', pid: 5 }, 60_000), 1)
  const presence = await server.redis.hgetall('{b}:worker:w')
  assert.deepEqual([presence.host, presence.pid], ['h', '5'])
  assert.equal(await broker.heartbeat('w', {}, 60_000), 0)
})

test('queues are named that were used, and no others', async () => {
  await store(record('A', { queue: 'z' }), record('B', { queue: 'ä' }))
  await server.redis.sadd('{b}:queues', 'no:queue', Buffer.from([0xff, 0x7f]))
  assert.deepEqual(await broker.queues(), ['z', 'ä'])
})

test('a name that the protocol refuses is refused before anything is sent', async () => {
  await assert.rejects(claim(1, { queues: ['a:b'] }), { name: 'InvalidName' })
  await assert.rejects(claim(1, { child: 'a b' }), { name: 'InvalidName' })
  await assert.rejects(broker.wait(['*'], 10), { name: 'InvalidName' })
  await assert.rejects(broker.arm('{x}'), { name: 'InvalidName' })
  await assert.rejects(broker.heartbeat('a b', {}, 10), { name: 'InvalidName' })
  await assert.rejects(broker.expired(['a:b']), { name: 'InvalidName' })
  assert.throws(() => new Broker(server.url, 'a:b'), { name: 'InvalidName' })
})

test('who waits is woken by an enqueue, and one marker wakes one', async () => {
  const waits = [broker.wait(['r', 'q'], 5000), broker.wait(['r', 'q'], 5000)]
  await until(async () => /blocked_clients:2/.test(await server.redis.info('clients')))
  await store(record('A'))
  assert.equal(await Promise.race(waits), 'q')
  await broker.arm('r')
  assert.deepEqual((await Promise.all(waits)).toSorted(), ['q', 'r'])
})

test('a wait that nobody ends returns null, and the next uses the same connection', async () => {
  assert.equal(await broker.wait(['q'], 10), null)
  const clients = async () => Number(/connected_clients:(\d+)/.exec(await server.redis.info('clients'))[1])
  const before = await clients()
  assert.equal(await broker.wait(['q'], 10), null)
  assert.equal(await clients(), before)
})

test('waits end at once when they are to, and others can follow', async () => {
  const begun = performance.now()
  const waits = [broker.wait(['q'], 5000), broker.wait(['q'], 5000)]
  await until(async () => /blocked_clients:2/.test(await server.redis.info('clients')))
  broker.stopWaiting()
  assert.deepEqual(await Promise.all(waits), [null, null])
  assert.ok(performance.now() - begun < 2500)
  await until(async () => /blocked_clients:0/.test(await server.redis.info('clients')))
  await broker.arm('q')
  assert.equal(await broker.wait(['q'], 5000), 'q')
})

test('closing ends a wait at once, also one that has only begun', async () => {
  const waits = [broker.wait(['q'], 5000)]
  await until(async () => /blocked_clients:1/.test(await server.redis.info('clients')))
  waits.push(broker.wait(['q'], 5000))
  const begun = performance.now()
  await broker.close()
  assert.deepEqual(await Promise.all(waits), [null, null])
  assert.equal(await broker.wait(['q'], 5000), null)
  assert.ok(performance.now() - begun < 2500)
})

test('a wait whose server goes away fails, and does not wait for ever', async () => {
  const proxy = await Proxy.start(server.port)
  others.push(proxy)
  await broker.close()
  broker = new Broker(proxy.url, 'b', { replyMs: 200 })
  const cut = broker.wait(['q'], 5000)
  await until(async () => /blocked_clients:1/.test(await server.redis.info('clients')))
  proxy.replies = 'cut'
  await server.redis.zadd('{b}:queue:q:wake', 0, '1')
  await assert.rejects(cut, { name: 'BrokerUnavailable', maybeExecuted: true })
  proxy.replies = 'pass'
  await broker.wait(['q'], 10)
  proxy.replies = 'hold'
  await assert.rejects(broker.wait(['q'], 100), { name: 'BrokerUnavailable', message: 'no reply within 300 ms' })
})

test('the rights that the documentation names are enough', async () => {
  await server.redis.acl(
    'SETUSER', 'b', 'on', '>pw', 'resetchannels', 'resetkeys', '~{b}:*', '-@all',
    ...RIGHTS.map((name) => `+${name}`),
  )
  await broker.close()
  broker = new Broker(server.url.replace('//', '//b:pw@'), 'b')
  await store(record('A'))
  const { leases: [lease] } = await claim(1)
  await broker.renew([lease], 1000)
  await broker.expired(['q'])
  await broker.heartbeat('w', { host: 'h' }, 1000)
  await broker.arm('q')
  assert.equal(await broker.wait(['q'], 1000), 'q')
  assert.deepEqual(await broker.queues(), ['q'])
  assert.equal(await broker.settle(complete(lease, '{}')), 'DONE')
  await broker.close()
  broker = new Broker(server.url.replace('//', '//b:pw@'), 'other')
  await assert.rejects(broker.queues(), { name: 'ConfigurationError', message: /NOPERM/ })
})

for (const reply of [':5', '+OK', '*-1', '$-1', '*0', '*1\r\n$5\r\nWORDS', '*3\r\n:1\r\n:2\r\n:3']) {
  test(`${JSON.stringify(reply)} is no answer of a script, and is taken for none`, async () => {
    const sockets = []
    const fake = createServer((socket) => {
      sockets.push(socket)
      socket.on('error', () => {})
      socket.on('data', () => socket.write(`${reply}\r\n`))
    }).listen(0, '127.0.0.1')
    await once(fake, 'listening')
    others.push({ stop: () => [fake.close(), ...sockets.map((socket) => socket.destroy())] })
    const confused = new Broker(`redis://127.0.0.1:${fake.address().port}`, 'b')
    const lease = { id: 'A', queue: 'q', token: 1 }
    // It is asked over another connection then, for what follows may be another's reply, too.
    const { value: page } = await confused.enqueue([record('A')]).next()
    assert.deepEqual([page.name, page.maybeExecuted], ['BrokerUnavailable', true])
    for (const call of [
      () => confused.claim({ child: CHILD, nonce: 1, count: 1, leaseMs: 1000, queues: ['q'] }),
      () => confused.exchange([complete(lease, '{}'), complete({ ...lease, id: 'B' }, '{}')]),
      () => confused.renew([lease, lease], 1000),
      () => confused.expired(['q']),
      () => confused.read('A'),
    ]) await assert.rejects(call, { name: 'BrokerUnavailable', maybeExecuted: true })
    assert.equal(sockets.length, 6)
    await confused.close()
  })
}
