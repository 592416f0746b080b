// The golden vectors of replies and log lines: what this client reads in them, and which errors it writes.
import assert from 'node:assert/strict'
import { test } from 'node:test'

import { Broker } from '../dist/broker.js'
import { Connection } from '../dist/connection.js'
import { resultOf, roundOf, workerIdsOf } from '../dist/reading.js'
import { attemptOf, errorJson } from '../dist/records.js'
import { VECTORS, entries, made, madeBytes } from './vectors.js'

/** Return a reply as the connection gives it. */
function replied(value) {
  if (Array.isArray(value)) return value.map(replied)
  return typeof value === 'string' ? Buffer.from(value) : value
}

/** Return fields with their names as in the vectors. */
function named(fields) {
  const name = (ours) => ours.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
  return Object.fromEntries(Object.entries(fields).map(([ours, value]) => [name(ours), value]))
}

function leaseShown(lease) {
  const { id, queue, token, attempt, releases, unknownMs, claimedAt, cancelRequested, task } = lease
  return named({ id, queue, token, attempt, releases, unknownMs, claimedAt, cancelRequested, task: task.toString() })
}

function recordShown(record) {
  if (record === null || typeof record === 'string') return record
  const { id, task, head, envelopeBytes, envelope, history, ...told } = record
  const failures = roundOf(record).flatMap(({ error }) => error?.message ?? [])
  return named({ ...told, workerIds: workerIdsOf(record), failures, result: resultOf(record) })
}

const READERS = {
  enqueue: async (broker, means) => {
    const pages = broker.enqueue(means.map(({ id }) => ({ id, envelope: Buffer.from('{}'), key: null })))
    return (await pages.next()).value.map(named)
  },
  claim: async (broker) => {
    const claimed = await broker.claim({ child: 'w.c1', nonce: 1, count: 1, leaseMs: 30_000, queues: ['q'] })
    return named({ ...claimed, leases: claimed.leases.map(leaseShown) })
  },
  expired: async (broker) => {
    const expired = await broker.expired(['q'])
    return named({ ...expired, leases: expired.leases.map(leaseShown) })
  },
}

for (const [, { script, reply, means }] of entries('replies')) {
  test(`replies: ${script} ${JSON.stringify(reply).slice(0, 60)} means what is described`, async (context) => {
    const broker = new Broker('redis://127.0.0.1:1')
    const answer = (value) => context.mock.method(Connection.prototype, 'send', async () => [replied(value)])
    if (script !== 'read') {
      answer(reply)
      assert.deepEqual(await READERS[script](broker, means), means)
      return
    }
    for (const [index, record] of reply.entries()) {
      answer([record])
      assert.deepEqual(recordShown(await broker.read('x')), means[index])
    }
  })
}

for (const [shown, vector] of entries('logs', 'line')) {
  test(`logs: ${shown} is read`, () => {
    const attempt = attemptOf(madeBytes(vector.line))
    if (vector.unreadable) assert.deepEqual([attempt.attempt, attempt.error.reason], [0, 'unreadable'])
    else assert.deepEqual(named(attempt), vector.attempt)
  })
}

for (const { error, json } of VECTORS.logs.filter((vector) => 'json' in vector)) {
  test(`logs: ${JSON.stringify(error).slice(0, 60)} is written`, () => {
    const texts = Object.fromEntries(Object.entries(error).map(([name, text]) => [name, made(text)]))
    assert.equal(errorJson(texts), made(json))
  })
}
