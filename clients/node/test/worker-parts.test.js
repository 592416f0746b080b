// The parts of a worker by themselves, without Redis.
import assert from 'node:assert/strict'
import { test } from 'node:test'

import { BrokerUnavailable } from '../dist/index.js'
import { Claims } from '../dist/worker/claims.js'
import { after, Bell, now } from '../dist/worker/clock.js'
import { Duty } from '../dist/worker/duty.js'
import { Outage } from '../dist/worker/outage.js'
import { Reaper } from '../dist/worker/reaper.js'
import { until } from './server.js'
import { Gate, Lines } from './workers.js'

const away = (text = 'connection refused') => new BrokerUnavailable(text, false)
const settings = (log = new Lines()) => ({ child: 'w.12345678', queues: ['default'], leaseMs: 30_000, log })
const answer = (leases, nextDueMs = null) => ({ leases, nextDueMs, stale: false })

test('the nonce of a claim grows with each that was answered', () => {
  const claims = new Claims(settings())
  const nonces = [1, 2, 3].map(() => {
    const { nonce } = claims.request(5)
    claims.answered(answer([]))
    return nonce
  })
  assert.deepEqual(nonces, [1, 2, 3])
})

test('a claim that was not answered is asked again as it was, or for nothing when nothing is wanted any more', () => {
  const claims = new Claims(settings())
  const first = claims.request(5)
  assert.equal(claims.isUnderWay, true)
  assert.deepEqual(claims.request(9), first)
  assert.deepEqual(claims.request(0), { ...first, count: 0 })
  assert.deepEqual(claims.request(9), first)
  claims.answered(answer([]))
  assert.equal(claims.isUnderWay, false)
  assert.equal(claims.request(0), null)
})

test('a claim that got all it asked for leaves hunger for more, and one that got less does not', () => {
  const claims = new Claims(settings())
  claims.request(2)
  claims.answered(answer(['a', 'b']))
  assert.equal(claims.isHungry, true)
  claims.request(2)
  claims.answered(answer(['c'], 60_000))
  assert.equal(claims.isHungry, false)
  assert.ok(Math.abs(claims.dueAt - now() - 60_000) < 1_000)
  claims.lookAtClock()
  assert.equal(claims.isHungry, false)
  claims.dueAt = now()
  claims.lookAtClock()
  assert.deepEqual([claims.isHungry, claims.dueAt], [true, Infinity])
})

test('who leaves claims nothing once more, which wakes another', () => {
  const claims = new Claims(settings())
  claims.leave()
  assert.equal(claims.isUnderWay, true)
  assert.equal(claims.request(0).count, 0)
  claims.answered(answer([]))
  assert.equal(claims.request(0), null)
})

test('a stale claim is the last', () => {
  const log = new Lines()
  const claims = new Claims(settings(log))
  claims.request(1)
  assert.deepEqual(claims.answered({ leases: [], nextDueMs: null, stale: true }), [])
  assert.equal(claims.isStale, true)
  claims.leave()
  assert.equal(claims.request(0), null)
  assert.equal(log.lines.length, 1)
})

test('a timer waits for longer than those of Node.js can, and can be taken back', async () => {
  const calls = []
  const forget = after(2 ** 40, () => calls.push('far'))
  after(1, () => calls.push('near'))
  after(1, () => calls.push('forgotten'))()
  await until(() => calls.length > 0)
  await new Promise((resolve) => setImmediate(resolve))
  assert.deepEqual(calls, ['near'])
  forget()
})

test('a bell ends a wait, also one that rang before it', async () => {
  const bell = new Bell()
  bell.ring()
  await bell.wait(Infinity)
  const begun = now()
  await bell.wait(5)
  assert.ok(now() - begun >= 5)
  const wait = bell.wait(Infinity)
  bell.ring()
  await wait
})

test('an outage is told in one line for all parts, and ends in one when all have an answer', () => {
  const log = new Lines()
  const outage = new Outage(log, 'Worker w')
  const pauses = Array.from({ length: 12 }, () => outage.failed('one', away()))
  outage.failed('other', away('another'))
  assert.deepEqual(log.lines, ['Worker w: connection refused; trying again until it answers'])
  pauses.forEach((pause, index) => {
    const longest = Math.min(50 * 2 ** index, 2_000)
    assert.ok(pause >= longest / 2 && pause <= longest, `${pause} of ${longest}`)
  })
  assert.equal(outage.over('one'), true)
  assert.deepEqual([outage.lasts('one'), outage.lasts('other')], [false, true])
  assert.equal(log.lines.length, 1)
  assert.equal(outage.over('other'), true)
  assert.match(log.lines[1], /^Worker w: Redis answers again after 0\.0 s$/)
  assert.equal(outage.over('other'), false)
  assert.equal(log.lines.length, 2)
})

test('a duty goes on after whatever its work throws, and counts what was no outage', async () => {
  const log = new Lines()
  const outage = new Outage(log, 'Worker w')
  const done = new Gate()
  let round = 0
  const duty = new Duty('presence', async () => {
    round += 1
    if (round === 1) throw away()
    if (round === 2) throw new TypeError('a fault of ours')
    done.open()
    return Infinity
  }, outage, log)
  const run = duty.run()
  await until(() => round === 2)
  assert.equal(outage.lasts('presence'), true)
  duty.poke()
  await done.passed
  duty.stop()
  await run
  assert.equal(duty.failures, 1)
  assert.equal(log.with("Duty 'presence' failed; it goes on: TypeError: a fault of ours").length, 1)
  assert.equal(outage.lasts('presence'), false)
})

test('a reaper that stood still itself holds back for one lease', async () => {
  let looks = 0
  const broker = {
    ping: async () => {},
    queues: async () => ['default'],
    expired: async () => ((looks += 1), { leases: [], nextLapseMs: null }),
    exchange: async () => ({ words: [], claimed: null }),
  }
  const leaseMs = 60
  const reaper = new Reaper(broker, { ...settings(), leaseMs })
  const begun = now()
  await until(async () => (await reaper.work(), looks > 0))
  assert.ok(now() - begun >= leaseMs / 3)
  // Nobody calls it for longer than a lease.
  for (const end = now() + leaseMs + 20; now() < end; );
  const back = now()
  looks = 0
  await until(async () => (await reaper.work(), looks > 0))
  assert.ok(now() - back >= leaseMs - 1)
})
