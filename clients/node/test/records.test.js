import assert from 'node:assert/strict'
import { test } from 'node:test'

import { recordOf, resultOf, roundOf, workerIdsOf } from '../dist/reading.js'
import { ERROR_BYTES, attemptOf, errorJson } from '../dist/records.js'
import { resultFrom } from '../dist/results.js'

const ERROR = { error: 'TypeError', message: 'no', traceback: 'at line 1', reason: '' }
const UNREADABLE = (line) => ({
  attempt: 0, token: 0, startedAt: 0, endedAt: 0, child: '', result: null,
  error: { error: '', message: "The log line can't be read.", traceback: line, reason: 'unreadable' },
})

test('an error is written with its reason only where it has one', () => {
  assert.equal(errorJson(ERROR), '{"error":"TypeError","message":"no","traceback":"at line 1"}')
  assert.equal(
    errorJson({ ...ERROR, traceback: '', reason: 'r' }),
    '{"error":"TypeError","message":"no","traceback":"","reason":"r"}',
  )
})

test('a long text loses its middle, and no character is cut in two', () => {
  const { message } = JSON.parse(errorJson({ ...ERROR, message: `${'é'.repeat(ERROR_BYTES)}a` }))
  const [head, said, tail] = message.split('\n')
  assert.equal(said, `[${ERROR_BYTES + 1} bytes cut]`)
  assert.equal(head, 'é'.repeat(ERROR_BYTES / 4))
  assert.equal(tail, `${'é'.repeat(ERROR_BYTES / 4 - 1)}a`)
  assert.equal(JSON.parse(errorJson({ ...ERROR, message: 'x'.repeat(ERROR_BYTES) })).message.length, ERROR_BYTES)
})

test('a lone surrogate in an error is written out', () => {
  assert.equal(JSON.parse(errorJson({ ...ERROR, message: 'a\udc80😀' })).message, 'a\\udc80😀')
})

test('a log line is read with a result or an error, or both', () => {
  const read = (json) => attemptOf(Buffer.from(`2 17 100 200 w.12345678 ${json}`))
  const numbers = { attempt: 2, token: 17, startedAt: 100, endedAt: 200, child: 'w.12345678' }
  assert.deepEqual(read('{"result":[1,{"a":"b c"}]}'), { ...numbers, error: null, result: [1, { a: 'b c' }] })
  assert.deepEqual(read('{}'), { ...numbers, error: null, result: null })
  assert.deepEqual(read(errorJson(ERROR)), { ...numbers, error: ERROR, result: null })
  assert.deepEqual(read('{"error":null,"result":5}'), {
    ...numbers, error: { error: '', message: '', traceback: '', reason: '' }, result: 5,
  })
})

test('a log line that is none counts as an attempt with an unreadable error', () => {
  for (const line of ['', 'x', '1 2 3 4 w', '1 2 3 4 w nojson', '1 2 3 4 w [1]', 'a 2 3 4 w {}', '1 2 3 4 w null']) {
    assert.deepEqual(attemptOf(Buffer.from(line)), UNREADABLE(line))
  }
  assert.deepEqual(attemptOf(Buffer.from('312033203420352077207b7d20ff', 'hex')).error.reason, 'unreadable')
})

const LOG = (attempt, child, json = errorJson(ERROR)) => Buffer.from(`${attempt} 9 1 2 ${child} ${json}`)

function record({ task = '100 -3 q\n\n{"v":1,"name":"a"}', ttl = -1, run = {}, log = [], scores = [] } = {}) {
  const [ready = '', scheduled = '', leased = '', dead = ''] = scores
  const flat = Object.entries(run).flat().map((part) => Buffer.from(String(part)))
  const places = [ready, scheduled, leased, dead].map((score) => Buffer.from(score))
  return recordOf('id1', [Buffer.from(task), ttl, flat, log, ...places], false)
}

test('a record that nobody claimed waits, unless it has a TTL', () => {
  const { state, head, attempts, dueAt } = record({ scores: ['', '1700000000000'] })
  assert.deepEqual([state, head.priority, head.queue, attempts, dueAt], ['waiting', -3, 'q', 0, 1_700_000_000_000])
  assert.equal(record({ ttl: 5 }), null)
  assert.equal(record({ task: '', ttl: -2 }), null)
})

test('an alias names the record that it stands for', () => assert.equal(record({ task: 'alias OTHER' }), 'OTHER'))

test('what is no number in a run hash counts as missing', () => {
  const run = { state: 'leased', attempts: 'x', token: '1'.repeat(15), started_at: 7 }
  const { attempts, token, startedAt } = record({ run })
  assert.deepEqual([attempts, token, startedAt], [0, 0, 7])
})

test('a round is what has ended since a person last retried it, as far as the log goes back', () => {
  const log = [LOG(1, 'old'), LOG(2, 'old'), LOG(1, 'a'), LOG(2, 'b')]
  const waits = record({ run: { state: 'waiting', attempts: 2 }, log })
  assert.deepEqual(roundOf(waits).map(({ child }) => child), ['a', 'b'])
  assert.deepEqual(workerIdsOf(waits), ['a', 'b'])
  const runs = record({ run: { state: 'leased', attempts: 3, worker: 'c' }, log })
  assert.deepEqual(workerIdsOf(runs), ['a', 'b', 'c'])
  const begins = record({ run: { state: 'leased', attempts: 1, worker: 'c' }, log })
  assert.deepEqual([roundOf(begins), workerIdsOf(begins)], [[], ['c']])
  assert.deepEqual(workerIdsOf(record({ run: { state: 'dead', attempts: 6 }, log })), ['', '', 'old', 'old', 'a', 'b'])
})

test('as many attempts as nobody made are not listed one by one', () => {
  const run = { state: 'dead', attempts: '9'.repeat(14) }
  const { attempts, workerIds } = resultFrom(record({ run, log: [LOG(1, 'a')] }))
  assert.deepEqual([attempts, workerIds.length, workerIds.at(-1)], [99_999_999_999_999, 100_001, 'a'])
})

test('a state that is none, and a moment that no date can be, do no harm', () => {
  for (const state of ['constructor', '__proto__', '']) {
    const unknown = { name: 'UnreadableRecord', message: /isn't known here/ }
    assert.throws(() => resultFrom(record({ run: { state } })), unknown)
  }
  const strange = resultFrom(record({ task: `${'9'.repeat(400)} 0 q\n\n{"v":1,"name":"t"}`, scores: ['', 'inf'] }))
  assert.deepEqual([strange.enqueuedAt.getTime(), strange.dueAt], [8.64e15, null])
})

test('a result is shown of what succeeded', () => {
  const log = [LOG(1, 'a', '{"result":{"ok":true}}')]
  assert.deepEqual(resultOf(record({ run: { state: 'succeeded', attempts: 1 }, log })), { ok: true })
  assert.equal(resultOf(record({ run: { state: 'succeeded', attempts: 1 } })), null)
  assert.equal(resultOf(record({ run: { state: 'waiting', attempts: 1 }, log })), null)
})

test('statuses are those of Django', () => {
  const status = (state) => resultFrom(record({ run: { state } })).status
  assert.deepEqual(['waiting', 'leased', 'succeeded', 'dead', 'cancelled'].map(status), [
    'READY', 'RUNNING', 'SUCCESSFUL', 'FAILED', 'FAILED',
  ])
})

test('a record that cannot be read is shown all the same', () => {
  const unreadable = record({ task: '100 0 q\n\nnonsense', run: { state: 'dead' } })
  const { name, args, kwargs, state, queue } = resultFrom(unreadable)
  assert.deepEqual([name, args, kwargs, state, queue], ['unreadable.record', [], {}, 'dead', 'q'])
})
