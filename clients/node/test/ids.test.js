import assert from 'node:assert/strict'
import { test } from 'node:test'

import { newId } from '../dist/ids.js'

const TIME_DIGITS = 10
let copies = 0

/** Return the newId of a copy of the module that has drawn none. */
async function fresh() {
  return (await import(`../dist/ids.js?copy=${copies++}`)).newId
}

test('ids grow, however many are drawn in a millisecond', () => {
  let last = ''
  for (let index = 0; index < 100_000; index++) {
    const id = newId()
    assert.ok(id > last)
    last = id
  }
})

test('ids of one millisecond count on from a random start', async (context) => {
  context.mock.method(Date, 'now', () => 1e12)
  const newId = await fresh()
  const drawn = Array.from({ length: 40 }, newId)
  assert.equal(new Set(drawn.map((id) => id.slice(0, TIME_DIGITS))).size, 1)
  assert.equal(new Set(drawn).size, drawn.length)
  assert.deepEqual(drawn, drawn.toSorted())
  assert.ok(new Set(drawn.map((id) => id.slice(0, -1))).size <= 3)
})

test('ids grow when the clock goes back', async (context) => {
  let now = 1e12
  context.mock.method(Date, 'now', () => now)
  const newId = await fresh()
  const first = newId()
  now -= 1000
  const second = newId()
  assert.ok(second > first)
  assert.equal(second.slice(0, TIME_DIGITS), first.slice(0, TIME_DIGITS))
})

test('two processes draw different ids in one millisecond, all of them in the lower half', async (context) => {
  context.mock.method(Date, 'now', () => 1e12)
  const drawn = await Promise.all(Array.from({ length: 200 }, async () => (await fresh())()))
  assert.equal(new Set(drawn).size, drawn.length)
  for (const id of drawn) assert.match(id[TIME_DIGITS], /[0-9A-F]/)
  for (let at = TIME_DIGITS + 1; at < 26; at++) assert.ok(new Set(drawn.map((id) => id[at])).size > 20, `digit ${at}`)
})
