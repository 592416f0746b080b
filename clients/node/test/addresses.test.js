import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createConnection } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { createServer } from 'node:tls'

import { Connection } from '../dist/connection.js'
import { Server } from './server.js'

const folder = mkdtempSync(join(tmpdir(), 'taskq-node-'))
const certificate = join(folder, 'cert.pem')
const key = join(folder, 'key.pem')
const { error } = spawnSync('openssl', [
  'req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', '/CN=taskq', '-addext',
  'subjectAltName=DNS:localhost', '-keyout', key, '-out', certificate,
])
const skip = error && !process.env.CI && 'no openssl is installed'

let server
let front // Speaks TLS, and passes on what it hears.
let port
before(async () => {
  server = await Server.own('--unixsocket', join(folder, 'redis.sock'))
  if (skip) return
  front = createServer({ key: readFileSync(key), cert: readFileSync(certificate) }, (client) => {
    const plain = createConnection(server.port, '127.0.0.1')
    client.on('error', () => plain.destroy()).pipe(plain)
    plain.on('error', () => client.destroy()).pipe(client)
  }).listen(0)
  await once(front, 'listening')
  port = front.address().port
})
after(async () => {
  front?.close()
  await server.stop()
  rmSync(folder, { recursive: true })
})

async function echoed(url) {
  const connection = new Connection(url, 2000)
  try {
    return String(await connection.send([['ECHO', 'here']]))
  } finally {
    await connection.close()
  }
}

test('a socket', async () => assert.equal(await echoed(`unix://${join(folder, 'redis.sock')}?db=1`), 'here'))

test('a socket that is not there', async () => {
  await assert.rejects(echoed(`unix://${folder}/none.sock`), { name: 'BrokerUnavailable', maybeExecuted: false })
})

test('TLS, with a certificate that the URL vouches for', { skip }, async () => {
  assert.equal(await echoed(`rediss://localhost:${port}?ssl_ca_certs=${certificate}`), 'here')
})

test('a certificate that nobody vouches for is refused', { skip }, async () => {
  const refused = { name: 'BrokerUnavailable', maybeExecuted: false, message: /self-signed certificate/ }
  await assert.rejects(echoed(`rediss://localhost:${port}`), refused)
})

test('a certificate for another name is refused, unless the URL allows it', { skip }, async () => {
  const elsewhere = `rediss://127.0.0.1:${port}?ssl_ca_certs=${certificate}`
  await assert.rejects(echoed(elsewhere), { name: 'BrokerUnavailable', message: /does not match certificate/ })
  assert.equal(await echoed(`${elsewhere}&ssl_check_hostname=no`), 'here')
})

test('a certificate that is not asked for is any', { skip }, async () => {
  assert.equal(await echoed(`rediss://127.0.0.1:${port}?ssl_cert_reqs=none`), 'here')
})

test('TLS where none is spoken is given up', async () => {
  await assert.rejects(echoed(`rediss://127.0.0.1:${server.port}`), { name: 'BrokerUnavailable', maybeExecuted: false })
})
