import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { after, before, beforeEach, test } from 'node:test'

import { Connection } from '../dist/connection.js'
import { load, names, run } from '../dist/scripts.js'
import { Server } from './server.js'

let server
let connection
before(async () => (server = await Server.start()))
beforeEach(async () => server.flush())
after(async () => {
  await connection?.close()
  await server.stop()
})

function connect() {
  return (connection ??= new Connection(server.url))
}

test('every script is there, and each piece stands in it once, above what needs it', () => {
  assert.deepEqual(names(), [
    'bury', 'cancel', 'claim', 'complete', 'discard', 'enqueue', 'expired', 'heartbeat', 'promote', 'read', 'release',
    'renew', 'repaired', 'requeue', 'retry', 'states', 'summary',
  ])
  for (const name of names()) {
    const { text } = load(name)
    assert.doesNotMatch(text, /@include/, name)
    const definitions = [...text.matchAll(/^local function (\w+)/gm)].map((match) => match[1])
    assert.equal(new Set(definitions).size, definitions.length, name)
  }
})

test('the name of a script is the SHA1 of its text, as Redis reckons it', async () => {
  for (const name of names()) {
    const { text, sha } = load(name)
    assert.equal(sha, createHash('sha1').update(text).digest('hex'))
    assert.equal(await server.redis.script('LOAD', text), sha)
  }
})

test('those are sent with their texts that the server does not know, and those alone', async () => {
  await server.redis.script('FLUSH')
  await server.redis.script('LOAD', load('states').text)
  await server.redis.config('RESETSTAT')
  const call = (script, ...args) => ({ script, arguments: args })
  const replies = await run(connect(), '{t}:queues', [
    call('promote', 'gone'), call('states', 'gone'), call('heartbeat', 'w', 1000),
  ])
  assert.deepEqual(replies.map(String), ['MISSING', 'GONE', '0'])
  assert.equal(await calls('eval'), 2)
  assert.equal(await calls('evalsha'), 3)
})

test('a script that is known is sent by its name alone', async () => {
  await run(connect(), '{t}:queues', [{ script: 'states', arguments: ['gone'] }])
  await server.redis.config('RESETSTAT')
  await run(connect(), '{t}:queues', [{ script: 'states', arguments: ['gone'] }])
  assert.equal(await calls('eval'), 0)
  assert.equal(await calls('evalsha'), 1)
})

test('the first error is thrown, after all scripts have run', async () => {
  const bad = { script: 'enqueue', arguments: ['no id!', 'q', 0, 0, 0, '', '{}'] }
  const good = { script: 'enqueue', arguments: ['id1', 'q', 0, 0, 0, '', '{}'] }
  await assert.rejects(run(connect(), '{t}:queues', [bad, good]), { name: 'BrokerError', message: /ID must be/ })
  assert.equal(await server.redis.exists('{t}:task:id1'), 1)
})

test('the Lua files are those that the client was built with', () => {
  const text = readFileSync(new URL('../lua/states.lua', import.meta.url), 'utf8')
  const [, body] = text.split('-- @include _head\n')
  assert.ok(load('states').text.endsWith(body))
})

async function calls(command) {
  const stats = await server.redis.info('commandstats')
  return Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(stats)?.[1] ?? 0)
}
