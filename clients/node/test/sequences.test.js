// The sequences of the golden vectors hold for the Node.js client: the replies, and all that is held after each step.
import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'

import { Connection } from '../dist/connection.js'
import { load, names, run } from '../dist/scripts.js'
import { runSequence } from './sequences.js'
import { Server } from './server.js'
import { VECTORS } from './vectors.js'

let server
let connection
before(async () => {
  server = await Server.start()
  connection = new Connection(server.url)
})
beforeEach(async () => server.flush())
after(async () => {
  await connection.close()
  await server.stop()
})

for (const { name, steps } of VECTORS.sequences) {
  test(name, async () => {
    const call = async (script, argv) => (await run(connection, '{vectors}:queues', [{ script, arguments: argv }]))[0]
    await runSequence(steps, server.redis, 'vectors', call)
  })
}

test('every script has the text, and so the name for Redis, that it has in Python', () => {
  assert.deepEqual(Object.fromEntries(names().map((name) => [name, load(name).sha])), VECTORS.scripts)
})
