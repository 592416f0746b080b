// The sequences of the golden vectors hold for the Node.js client: the replies, and all that is held after each step.
import { readFileSync } from 'node:fs'
import { after, before, beforeEach, test } from 'node:test'

import { Connection } from '../dist/connection.js'
import { run } from '../dist/scripts.js'
import { runSequence } from './sequences.js'
import { Server } from './server.js'

const VECTORS = new URL('../../../docs/reference/protocol-vectors.json', import.meta.url)
const { sequences } = JSON.parse(readFileSync(VECTORS, 'utf8'))

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

for (const { name, steps } of sequences) {
  test(name, async () => {
    const call = async (script, argv) => (await run(connection, '{vectors}:queues', [{ script, arguments: argv }]))[0]
    await runSequence(steps, server.redis, 'vectors', call)
  })
}
