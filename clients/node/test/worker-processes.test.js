// Workers in processes of their own: killed, and stopped by signals.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { afterEach, test } from 'node:test'
import { fileURLToPath } from 'node:url'

import { until } from './server.js'
import { enqueue, run, server, setUp, SOON, workers } from './workers.js'

const PROGRAM = fileURLToPath(new URL('worker-program.js', import.meta.url))

setUp()

let started = []
afterEach(async () => {
  for (const { pid, exited, hasExited } of started) {
    if (!hasExited()) process.kill(pid, 'SIGKILL')
    await exited
  }
  started = []
})

/** Start a worker's process; `exited` is the promise of its code. */
function start(options = {}) {
  const child = spawn(process.execPath, [PROGRAM, server.url, JSON.stringify({ leaseMs: 500, ...options })], {
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const program = {
    pid: child.pid,
    exited: once(child, 'exit').then(([code]) => code),
    hasExited: () => child.exitCode !== null || child.signalCode !== null,
    signal: (name) => process.kill(child.pid, name),
  }
  started.push(program)
  return program
}

const begun = () => server.redis.lrange('begun', 0, -1)
const hasBegun = (id) => until(async () => (await begun()).some((line) => line.endsWith(id)), `${id} has begun`)

/** Wait until the only worker has heard its first signal. */
function isDraining() {
  return until(async () => {
    const [key] = await server.redis.keys('{taskq}:worker:*')
    return key !== undefined && (await server.redis.hget(key, 'phase')) === 'draining'
  }, 'it is draining')
}

/** Check that a record waits at its old place, as if it was never claimed. */
async function assertGivenBack(id) {
  const { state, attempts, score } = await run(id)
  assert.deepEqual([state, attempts], ['waiting', '0'])
  assert.equal(await server.redis.zscore('{taskq}:queue:default:ready', id), score)
  assert.equal(await server.redis.exists(`{taskq}:log:${id}`), 0)
}

test('what a killed worker ran is a failed attempt, and another worker goes on with it', async () => {
  const { id } = await enqueue('hang', [], { backoff: SOON })
  const program = start()
  await hasBegun(id)
  program.signal('SIGKILL')
  await program.exited
  workers.start({ hang: (args, kwargs, { attempt }) => attempt }, { leaseMs: 500 })
  assert.equal((await workers.ended(id)).result, 2)
  const [log] = await server.redis.lrange(`{taskq}:log:${id}`, 0, 0)
  assert.match(log, /"reason":"lease expired"/)
})

test('a task that kills its workers is buried when its attempts are used up', async () => {
  const { id } = await enqueue('hang', [], { backoff: SOON, maxAttempts: 2 })
  for (let kills = 1; kills <= 2; kills += 1) {
    const program = start()
    await until(async () => (await begun()).length === kills)
    program.signal('SIGKILL')
    await program.exited
  }
  start()
  const { errors } = await workers.ended(id, 'dead')
  assert.deepEqual(errors.map(({ reason }) => reason), ['lease expired', 'lease expired'])
})

for (const name of ['SIGTERM', 'SIGINT']) {
  test(`after ${name} a worker ends what it runs, and claims no more`, async () => {
    const { id } = await enqueue('until')
    const program = start({ concurrency: 1 })
    await hasBegun(id)
    program.signal(name)
    await isDraining()
    const left = await enqueue('note')
    await server.redis.set('gate', '1')
    assert.equal(await program.exited, 0)
    assert.equal((await workers.taskq.result(id)).result, 'passed')
    assert.equal((await workers.taskq.result(left.id)).state, 'waiting')
    assert.equal((await server.redis.keys('{taskq}:worker:*')).length, 0)
  })
}

test('what still runs when the grace is over is given back with its attempt', async () => {
  const { id } = await enqueue('hang')
  const program = start({ shutdownMs: 100 })
  await hasBegun(id)
  program.signal('SIGTERM')
  assert.equal(await program.exited, 5)
  await assertGivenBack(id)
})

test('a second signal waits for no grace', async () => {
  const { id } = await enqueue('hang')
  const program = start({ shutdownMs: 60_000 })
  await hasBegun(id)
  program.signal('SIGTERM')
  await isDraining()
  const sent = performance.now()
  program.signal('SIGTERM')
  assert.equal(await program.exited, 5)
  assert.ok(performance.now() - sent < 4_000)
  await assertGivenBack(id)
})

test('a worker that waits ends at once when it is told to', async () => {
  const program = start()
  await until(async () => (await server.redis.client('LIST')).includes('cmd=bzpopmin'))
  const sent = performance.now()
  program.signal('SIGTERM')
  assert.equal(await program.exited, 0)
  assert.ok(performance.now() - sent < 2_000)
})

test('a task that blocks its process beyond its lease is another worker\'s, and its end changes nothing', async () => {
  const { id } = await enqueue('block', [], { backoff: SOON })
  const program = start({ leaseMs: 300 })
  await hasBegun(id)
  workers.start({ block: (args, kwargs, { attempt }) => attempt }, { leaseMs: 300 })
  const { result, attempts } = await workers.ended(id)
  assert.deepEqual([result, attempts], [2, 2])
  const before = await run(id)
  const next = await enqueue('until')
  await server.redis.set('gate', '1')
  await workers.stop()
  await workers.ended(next.id)
  assert.deepEqual(await run(id), before)
  program.signal('SIGTERM')
  assert.equal(await program.exited, 0)
})

test('two workers share a queue, and each task runs once', async () => {
  const handles = await workers.taskq.enqueueMany(Array.from({ length: 500 }, () => ({ name: 'note' })))
  start({ concurrency: 5 })
  start({ concurrency: 5 })
  for (const { id } of handles) await workers.ended(id)
  const ids = (await begun()).map((line) => line.split(' ')[1])
  assert.deepEqual(ids.toSorted(), handles.map(({ id }) => id).toSorted())
})
