import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { after, afterEach, before, beforeEach, test } from 'node:test'

import { Connection } from '../dist/connection.js'
import { Proxy, Server, until } from './server.js'

/** How long the tests wait for a reply that doesn't come. */
const REPLY_MS = 300

let server
const opened = []
before(async () => (server = await Server.own()))
beforeEach(async () => server.flush())
afterEach(async () => {
  for (const one of opened.splice(0)) await (one instanceof Connection ? one.close() : one.stop())
})
after(async () => server.stop())

function connect(url = server.url, replyMs = REPLY_MS) {
  opened.push(new Connection(url, replyMs))
  return opened.at(-1)
}

async function proxied(replies = 'pass') {
  const proxy = await Proxy.start(server.port)
  opened.unshift(proxy)
  proxy.replies = replies
  return proxy
}

/** A server that answers all that comes with the same bytes. */
async function impostor(reply) {
  const sockets = []
  const fake = createServer((socket) => {
    sockets.push(socket)
    socket.on('error', () => {})
    socket.on('data', () => reply && socket.write(reply))
  }).listen(0, '127.0.0.1')
  await once(fake, 'listening')
  opened.push({
    stop: () => {
      fake.close()
      sockets.forEach((socket) => socket.destroy())
    },
  })
  return `redis://127.0.0.1:${fake.address().port}`
}

const count = () => server.redis.get('n').then(Number)
const unavailable = (maybeExecuted, message = /./) => ({ name: 'BrokerUnavailable', maybeExecuted, message })

test('a request whose reply is lost was sent once, and stays so when the connection is back', async () => {
  const proxy = await proxied()
  const connection = connect(proxy.url)
  await connection.send([['SET', 'n', 0]])
  proxy.replies = 'cut'
  await assert.rejects(connection.send([['INCR', 'n']]), unavailable(true))
  proxy.replies = 'pass'
  assert.deepEqual(await connection.send([['GET', 'n']]), [Buffer.from('1')])
  assert.equal(proxy.connections, 2)
  assert.equal(proxy.requests.match(/INCR/g).length, 1)
})

test('of a pipeline that is cut, and of those behind it, each command was sent once', async () => {
  const proxy = await proxied()
  const connection = connect(proxy.url)
  await connection.send([['SET', 'n', 0]])
  proxy.replies = 'cut'
  const incr = ['INCR', 'n']
  const sent = [connection.send([incr, incr, incr]), connection.send([incr]), connection.send([incr, incr])]
  for (const settled of await Promise.allSettled(sent)) {
    assert.equal(settled.status, 'rejected')
    assert.equal(settled.reason.maybeExecuted, true)
  }
  await until(async () => (await count()) === 6)
  proxy.replies = 'pass'
  await connection.send([['PING']])
  assert.equal(await count(), 6)
  assert.equal(proxy.requests.match(/INCR/g).length, 6)
})

test('a reply that never comes ends after a while, and its connection with it', async () => {
  const proxy = await proxied()
  const connection = connect(proxy.url)
  await connection.send([['SET', 'n', 0]])
  proxy.replies = 'hold'
  const begun = performance.now()
  await assert.rejects(connection.send([['INCR', 'n']]), unavailable(true, /no reply within 300 ms/))
  assert.ok(performance.now() - begun < 10 * REPLY_MS)
  proxy.replies = 'pass'
  assert.deepEqual(await connection.send([['INCR', 'n'], ['ECHO', 'x']]), [2, Buffer.from('x')])
  assert.equal(proxy.connections, 2)
})

test('what comes while our own loop is held up is read all the same', async () => {
  const connection = connect()
  await connection.send([['PING']])
  const sent = connection.send([['INCR', 'n']])
  for (let ticks = 0; ticks < 10; ticks += 1) await null // It is on its way, and nothing was read since.
  const end = performance.now() + 2 * REPLY_MS
  while (performance.now() < end);
  assert.deepEqual(await sent, [1])
})

test('a connection that is cut while it opens has sent nothing', async () => {
  const proxy = await proxied('cut')
  await assert.rejects(connect(proxy.url).send([['INCR', 'n']]), unavailable(false))
  assert.doesNotMatch(proxy.requests, /INCR/)
})

test('a server that accepts and says nothing is given up, with nothing sent', async () => {
  const connection = connect(await impostor(''))
  const sent = [connection.send([['INCR', 'n']]), connection.send([['INCR', 'n']])]
  for (const one of sent) await assert.rejects(one, unavailable(false, /no connection within 300 ms/))
})

test('nothing is kept for later while the server is away, and it is found again', async () => {
  const connection = connect()
  await connection.send([['PING']])
  await server.down()
  await assert.rejects(connection.send([['INCR', 'n']]), unavailable(false, /ECONNREFUSED|closed/))
  await server.up()
  assert.deepEqual(await connection.send([['GET', 'n']]), [null])
  assert.deepEqual(await connection.send([['INCR', 'n']]), [1])
})

test('a server that was killed and is back is found at the first try', async () => {
  const connection = connect()
  await connection.send([['PING']])
  await server.down('SIGKILL')
  await server.up()
  assert.deepEqual(await connection.send([['INCR', 'n']]), [1])
})

test('bytes of any value come back as they were', async () => {
  const all = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte))
  const [, back, empty] = await connect().send([['SET', 'b', all], ['GET', 'b'], ['GETRANGE', 'none', 0, -1]])
  assert.deepEqual(back, all)
  assert.deepEqual(empty, Buffer.alloc(0))
})

test('callers at the same time share one connection, and each gets its own replies', async () => {
  const proxy = await proxied()
  const connection = connect(proxy.url)
  const replies = await Promise.all(Array.from({ length: 100 }, (_, one) => connection.send([['ECHO', one], ['PING']])))
  assert.deepEqual(replies.map(([echo]) => Number(echo)), Array.from({ length: 100 }, (_, one) => one))
  assert.equal(proxy.connections, 1)
})

test('closing lets what was sent be answered, and sends nothing more', async () => {
  const connection = connect()
  const sent = connection.send([['INCR', 'n']])
  await connection.close()
  assert.deepEqual(await sent, [1])
  await assert.rejects(connection.send([['INCR', 'n']]), unavailable(false, /closed by its owner/))
  assert.equal(await count(), 1)
})

test('a node that is the master no more is left, with its last reply', async () => {
  const proxy = await proxied()
  const connection = connect(proxy.url)
  await server.redis.replicaof('127.0.0.1', 1)
  try {
    const slow = connection.send([['PING'], ['GET', 'n']])
    const [refused] = await connection.send([['INCR', 'n']])
    assert.deepEqual([refused.name, refused.maybeExecuted], ['BrokerUnavailable', false])
    assert.match(refused.message, /^READONLY/)
    assert.equal((await slow)[0].toString(), 'PONG')
  } finally {
    await server.redis.replicaof('NO', 'ONE')
  }
  assert.deepEqual(await connection.send([['INCR', 'n']]), [1])
  assert.equal(proxy.connections, 2)
})

test('a full memory is said so', async () => {
  await server.redis.config('SET', 'maxmemory', '1')
  try {
    const [refused] = await connect().send([['SET', 'n', 1]])
    assert.deepEqual([refused.name, refused.message.slice(0, 26)], ['OutOfMemory', 'Redis is at its maxmemory:'])
  } finally {
    await server.redis.config('SET', 'maxmemory', '0')
  }
})

for (const [reply, name] of [
  ['LOADING Redis is loading the dataset in memory', 'BrokerUnavailable'],
  ['BUSY Redis is busy running a script.', 'BrokerUnavailable'],
  ['MASTERDOWN Link with MASTER is down', 'BrokerUnavailable'],
  ['ERR max number of clients reached', 'BrokerUnavailable'],
  ['NOAUTH Authentication required.', 'ConfigurationError'],
  ["NOPERM this user has no permissions to run the 'ping' command", 'ConfigurationError'],
]) {
  test(`a server that answers ${reply.split(' ', 1)[0]} is understood, with nothing sent`, async () => {
    const connection = connect(await impostor(`-${reply}\r\n`))
    await assert.rejects(connection.send([['INCR', 'n']]), (error) => {
      assert.equal(error.name, name)
      assert.ok(error.message.includes(reply))
      assert.ok(!error.maybeExecuted)
      return true
    })
  })
}

test('a password opens the server, and stands in no error', async () => {
  const guarded = await Server.own('--requirepass', 'pa/ss w%rd')
  opened.unshift(guarded)
  const at = (login) => `redis://${login}127.0.0.1:${guarded.port}/3`
  const right = encodeURIComponent('pa/ss w%rd')
  assert.deepEqual(await connect(at(`:${right}@`)).send([['INCR', 'n']]), [1])
  assert.deepEqual(await connect(at(`default:${right}@`)).send([['INCR', 'n']]), [2])
  await assert.rejects(connect(at('')).send([['PING']]), { name: 'ConfigurationError', message: /NOAUTH/ })
  await assert.rejects(connect(at(':wrong-secret@')).send([['PING']]), (error) => {
    assert.equal(error.name, 'ConfigurationError')
    assert.match(error.message, /^Redis refuses us: WRONGPASS/)
    assert.doesNotMatch(shownWholly(error), /wrong-secret/)
    return true
  })
})

test('a password that a server repeats is masked', async () => {
  const url = await impostor("-ERR no such password: 'hush-hush'\r\n")
  await assert.rejects(connect(url.replace('//', '//:hush-hush@')).send([['PING']]), (error) => {
    assert.match(error.message, /no such password: '\*\*\*'/)
    assert.doesNotMatch(shownWholly(error), /hush/)
    return true
  })
})

test('a password that a server without AUTH repeats in part is not shown', async () => {
  const without = await Server.own('--rename-command', 'AUTH', 'LOGIN')
  opened.unshift(without)
  for (const password of [`hush${'h'.repeat(200)}`, 'hush\r\nhush']) {
    const url = `redis://:${encodeURIComponent(password)}@127.0.0.1:${without.port}`
    await assert.rejects(connect(url).send([['PING']]), (error) => {
      assert.match(error.message, /unknown command/)
      assert.doesNotMatch(shownWholly(error), /hush/)
      return true
    })
  }
})

function shownWholly(error) {
  return [error.stack, JSON.stringify(error), String(error.cause), JSON.stringify(error.cause)].join()
}
