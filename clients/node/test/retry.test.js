import assert from 'node:assert/strict'
import { test } from 'node:test'

import { Float, parse } from '../dist/json.js'
import { RetryPolicy, decide, roundHalfEven } from '../dist/retry.js'

const invalid = (message) => ({ name: 'RangeError', message })

test('a number is the same delay each time', () => {
  assert.deepEqual({ ...RetryPolicy.parse(5) }, { base: 5, factor: 1, cap: 5, jitter: 'none' })
  for (const attempt of [1, 2, 60, 61]) assert.equal(RetryPolicy.parse(0.25).delayMs(attempt, 0.9), 250)
})

test('what is left out is at its default, also where it is undefined', () => {
  const wanted = { base: 1, factor: 3, cap: 300, jitter: 'equal' }
  for (const given of [{ factor: 3 }, { factor: 3, base: undefined, cap: undefined }, new Map([['factor', 3]])]) {
    assert.deepEqual({ ...RetryPolicy.parse(given) }, wanted)
  }
})

test('a policy stands for itself', () => {
  const policy = new RetryPolicy({ base: 2 })
  assert.equal(RetryPolicy.parse(policy), policy)
})

test('policies are the same by their values', () => {
  const policy = new RetryPolicy({ base: 2 })
  assert.ok(policy.equals(new RetryPolicy({ base: new Float(2), factor: 2n, cap: 300, jitter: 'equal' })))
  for (const other of [{}, { base: 2, factor: 3 }, { base: 2, cap: 3 }, { base: 2, jitter: 'full' }]) {
    assert.ok(!policy.equals(new RetryPolicy(other)))
  }
})

test('any number of JSON can be a field', () => {
  const policy = RetryPolicy.parse(parse('{"base":1.0,"factor":100000000000000000000,"cap":300,"jitter":"none"}', true))
  assert.deepEqual([policy.delayMs(1, 0), policy.delayMs(2, 0)], [1000, 300_000])
})

const REFUSED = [
  ['5', "backoff must be a number of seconds or an object, not '5'."],
  [null, 'backoff must be a number of seconds or an object, not None.'],
  [true, 'backoff must be a number of seconds or an object, not True.'],
  [() => 5, 'backoff must be a number of seconds or an object, not a function.'],
  [NaN, 'backoff: base must be a number from 0 to 3155760000, not nan.'],
  [-1n, 'backoff: base must be a number from 0 to 3155760000, not -1.'],
  [{ base: null }, 'backoff: base must be a number from 0 to 3155760000, not None.'],
  [{ cap: true }, 'backoff: cap must be a number from 0 to 3155760000, not True.'],
  [{ cap: 3_155_760_000.5 }, 'backoff: cap must be a number from 0 to 3155760000, not 3155760000.5.'],
  [{ factor: Infinity }, 'backoff: factor must be a number from 0 to 1.7976931348623157e+308, not inf.'],
  [
    { factor: 10n ** 5000n },
    'backoff: factor must be a number from 0 to 1.7976931348623157e+308, not such a long number.',
  ],
  [
    { factor: BigInt(Number.MAX_VALUE) + 1n },
    `backoff: factor must be a number from 0 to 1.7976931348623157e+308, not ${BigInt(Number.MAX_VALUE) + 1n}.`,
  ],
  [{ jitter: null }, 'backoff: jitter must be one of none, equal, full, not None.'],
  [{ base: 1, toString: 2 }, "backoff has no key 'toString'; it takes base, factor, cap, jitter."],
]
for (const [value, message] of REFUSED) {
  test(message, () => assert.throws(() => RetryPolicy.parse(value), invalid(message)))
}

test('the middle between two milliseconds is rounded to the even one', () => {
  for (const [value, rounded] of [
    [0.5, 0],
    [1.5, 2],
    [2.5, 2],
    [2.5000000000000004, 3],
    [3.5, 4],
    [0.49999999999999994, 0],
    [1e15 + 0.5, 1e15],
  ]) {
    assert.equal(roundHalfEven(value), rounded)
  }
})

test('jitter lies between nothing or half, and all', () => {
  const delays = (jitter) => [0, 0.5, 1].map((random) => new RetryPolicy({ base: 8, jitter }).delayMs(1, random))
  assert.deepEqual(delays('none'), [8000, 8000, 8000])
  assert.deepEqual(delays('equal'), [4000, 6000, 8000])
  assert.deepEqual(delays('full'), [0, 4000, 8000])
})

test('the last attempt is followed by none', () => {
  const policy = RetryPolicy.parse(1)
  assert.deepEqual(
    [1, 2, 3, 4].map((attempt) => decide(attempt, 3, policy, 0)),
    [1000, 1000, null, null],
  )
})
