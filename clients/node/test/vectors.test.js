// The golden vectors hold for this client: what is read, what is written, and what is refused in which words.
import assert from 'node:assert/strict'
import { test } from 'node:test'

import { Envelope, headLines, parseTask } from '../dist/envelope.js'
import { InvalidName, UnknownVersion, UnreadableRecord } from '../dist/errors.js'
import { newId } from '../dist/ids.js'
import { parse, stringify } from '../dist/json.js'
import * as names from '../dist/names.js'
import { RetryPolicy, decide } from '../dist/retry.js'
import { VECTORS, entries, made, madeBytes } from './vectors.js'

const CHECKS = {
  namespace: names.checkNamespace,
  queue: names.checkQueueName,
  worker: names.checkWorkerName,
  child: names.checkChildId,
  key: names.checkIdempotencyKey,
  priority: names.checkPriority,
  id: names.checkId,
  task: names.checkTaskName,
}

/** Read JSON as a worker reads the arguments of a record. */
function read(data, exact) {
  const document = Buffer.concat([Buffer.from('{"name":"t","kwargs":{"it":'), data, Buffer.from('}}')])
  return Envelope.fromBytes(document, exact).kwargs.it
}

for (const [shown, vector] of entries('json', 'value')) {
  test(`json: ${shown} is written and read`, () => {
    const text = made(vector.text)
    assert.equal(stringify(made(vector.value)), text)
    assert.equal(stringify(read(Buffer.from(text), true)), text)
  })
}

for (const [shown, vector] of entries('json', 'read')) {
  test(`json: ${shown} is read`, () => {
    assert.equal(stringify(read(madeBytes(vector.read), true)), made(vector.text))
    assert.equal(stringify(parse(madeBytes(vector.read), true)), made(vector.text))
  })
}

for (const [shown, vector] of entries('refused', 'value')) {
  test(`refused: ${shown} is not written`, () => {
    assert.throws(() => stringify(made(vector.value), vector.what), { name: 'RangeError', message: made(vector.error) })
  })
}

for (const [shown, vector] of [...entries('refused', 'text'), ...entries('refused', 'hex')]) {
  for (const exact of [false, true]) {
    test(`refused: ${shown} is no JSON, exact or not (${exact})`, () => {
      const data = madeBytes(vector.text ?? vector)
      assert.throws(() => parse(data, exact), SyntaxError)
      assert.throws(() => read(data, exact), UnreadableRecord)
    })
  }
}

for (const [shown, { kind, name, error }] of entries('names')) {
  test(`names: ${kind} ${shown}`, () => {
    const check = () => CHECKS[kind](made(name))
    if (error === undefined) assert.equal(check(), made(name))
    else assert.throws(check, (refusal) => refusal instanceof InvalidName && refusal.message === made(error))
  })
}

test('ids: they are as described', () => {
  const pattern = new RegExp(VECTORS.ids.pattern)
  assert.match(newId(), pattern)
  assert.deepEqual(VECTORS.ids.sorted, VECTORS.ids.sorted.toSorted())
  for (const id of VECTORS.ids.sorted) assert.match(id, pattern)
  for (const id of VECTORS.ids.invalid) assert.doesNotMatch(id, pattern)
})

for (const [index, { id, ms }] of VECTORS.ids.times.entries()) {
  test(`ids: one drawn at ${ms} ms begins as ${id}`, async (context) => {
    context.mock.method(Date, 'now', () => ms)
    const { newId } = await import(`../dist/ids.js?${index}`) // which has drawn none
    const drawn = [newId(), newId(), newId()]
    assert.deepEqual(drawn, [...new Set(drawn)].toSorted())
    for (const one of [id, ...drawn]) assert.match(one, new RegExp(VECTORS.ids.pattern))
    assert.deepEqual([...new Set(drawn.map((one) => one.slice(0, 10)))], [id.slice(0, 10)])
  })
}

for (const [shown, vector] of entries('backoff')) {
  test(`backoff: ${shown}, attempt ${vector.attempt}`, () => {
    const { policy, attempt, max_attempts: maxAttempts, random, delay_ms: delayMs, error } = vector
    if (error !== undefined) assert.throws(() => RetryPolicy.parse(policy), { name: 'RangeError', message: error })
    else assert.equal(decide(attempt, maxAttempts, RetryPolicy.parse(policy), random), delayMs)
  })
}

for (const [shown, { lines, text }] of entries('heads', 'lines')) {
  test(`heads: ${shown} is written`, () => {
    assert.equal(headLines(lines.key ?? null, lines.key_ttl_ms ?? 0, lines.record ?? null), text)
  })
}

for (const [shown, vector] of entries('heads', 'task')) {
  test(`heads: ${shown} is read`, () => {
    const task = madeBytes(vector.task)
    const [head, envelope] = parseTask(task, 'where it was found')
    if (vector.unreadable) {
      assert.deepEqual([head.queue, envelope], ['where it was found', task])
    } else {
      assert.deepEqual(Object.values(head), Object.values(vector.head))
      assert.deepEqual(envelope, madeBytes(vector.envelope))
    }
  })
}

function envelopeOf({ backoff, ...fields }) {
  const policy = backoff && RetryPolicy.parse(backoff)
  const { run_after, max_attempts, timeout_ms, result_ttl_ms, ...same } = fields
  const values = {
    ...same,
    runAfter: run_after,
    maxAttempts: max_attempts,
    timeoutMs: timeout_ms,
    resultTtlMs: result_ttl_ms,
  }
  return new Envelope({
    ...Object.fromEntries(Object.entries(values).map(([name, value]) => [name, made(value)])),
    backoff: policy,
  })
}

for (const [shown, { fields, text }] of entries('envelopes', 'text')) {
  test(`envelopes: ${shown} is written and read`, () => {
    assert.equal(envelopeOf(fields).toBytes().toString(), made(text))
    assert.equal(Envelope.fromBytes(madeBytes(text), true).toBytes().toString(), made(text))
  })
}

for (const [shown, { read, fields, error }] of entries('envelopes', 'read')) {
  for (const exact of [false, true]) {
    test(`envelopes: ${shown} is read or refused, exact or not (${exact})`, () => {
      if (error === undefined) {
        const envelope = Envelope.fromBytes(madeBytes(read), exact)
        assert.equal(envelope.toBytes().toString(), envelopeOf(fields).toBytes().toString())
      } else {
        const kind = error === 'version' ? UnknownVersion : UnreadableRecord
        assert.throws(
          () => Envelope.fromBytes(madeBytes(read), exact),
          (thrown) => thrown.constructor === kind,
        )
      }
    })
  }
}
