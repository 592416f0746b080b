import assert from 'node:assert/strict'
import { test } from 'node:test'

import { InvalidName, TaskqError } from '../dist/errors.js'
import { Float } from '../dist/json.js'
import {
  checkChildId,
  checkId,
  checkIdempotencyKey,
  checkNamespace,
  checkPriority,
  checkQueueName,
  checkTaskName,
  checkWorkerName,
} from '../dist/names.js'

const invalid = (message) => ({ name: 'InvalidName', message })
const NO_TEXTS = [
  [undefined, 'undefined'],
  [null, 'None'],
  [7, '7'],
  [true, 'True'],
  ['', "''"],
  [['q'], "['q']"],
  [new Date(), 'a Date'],
]

for (const [value, shown] of NO_TEXTS) {
  test(`${shown} is no name`, () => {
    assert.throws(() => checkNamespace(value), invalid(`The namespace must be a non-empty string, not ${shown}.`))
    assert.throws(
      () => checkIdempotencyKey(value),
      invalid(`The idempotency key must be a non-empty string, not ${shown}.`),
    )
    assert.throws(() => checkId(value), invalid(`A record's id is 1 to 63 letters and digits, not ${shown}.`))
    assert.throws(() => checkTaskName(value), invalid(`name must be 1 to 255 printable characters, not ${shown}.`))
  })
}

test('a refusal is an error of the queue', () => {
  assert.throws(
    () => checkQueueName('a:b'),
    (error) => error instanceof InvalidName && error instanceof TaskqError,
  )
})

test('a name is returned as it is', () => {
  for (const check of [
    checkNamespace,
    checkQueueName,
    checkWorkerName,
    checkChildId,
    checkIdempotencyKey,
    checkTaskName,
  ]) {
    assert.equal(check('größe-😀'), 'größe-😀')
  }
})

test('only names that stand in a key are without its marks', () => {
  for (const check of [checkNamespace, checkQueueName, checkWorkerName, checkChildId]) {
    for (const mark of '{}:*')
      assert.throws(() => check(`a${mark}`), /must be without control characters and \{ \} : \*\./)
  }
  for (const check of [checkIdempotencyKey, checkTaskName]) assert.equal(check('{a}:*'), '{a}:*')
})

test('a name that is too long is shown by its first 20 characters', () => {
  const message = `The queue name '${'😀'.repeat(20)}'… has 104 bytes; at most 100 are allowed.`
  assert.throws(() => checkQueueName('😀'.repeat(26)), invalid(message))
})

test('a priority is a number, and never -0', () => {
  assert.ok(Object.is(checkPriority(-0), 0))
  for (const [value, shown] of [
    [NaN, 'nan'],
    [-Infinity, '-inf'],
    ['5', "'5'"],
    [5n, '5'],
    [new Float(5), '5.0'],
    [true, 'True'],
    [1e16, '1e+16'],
  ]) {
    assert.throws(
      () => checkPriority(value),
      invalid(`The priority must be an integer from -100 to 100, not ${shown}.`),
    )
  }
})

test('a name of a task is printable from its first character', () => {
  for (const name of ['\ta', 'a\u2028', '\xa0']) assert.throws(() => checkTaskName(name), InvalidName)
  assert.equal(checkTaskName(' a b '), ' a b ')
})

test('a long name of a task is counted in characters', () => {
  assert.equal(checkTaskName('😀'.repeat(255)).length, 510)
  for (const name of ['😀'.repeat(256), 'n'.repeat(256), 'n'.repeat(511)])
    assert.throws(() => checkTaskName(name), InvalidName)
})

test('a name that is no text is shown in bounded time, whatever it holds', () => {
  let held = {}
  for (let level = 0; level < 64; level += 1) held = { a: held, b: held }
  assert.throws(() => checkQueueName(held), (error) => error.message.length < 100_000)
})
