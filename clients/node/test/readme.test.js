import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

import { Taskq } from '../dist/index.js'
import { Server, until } from './server.js'

const ROOT = new URL('..', import.meta.url)
const README = readFileSync(new URL('README.md', ROOT), 'utf8')
const [produce, work] = [...README.matchAll(/```javascript\n(.*?)```/gs)].map(([, code]) => code)

let server
before(async () => (server = await Server.own()))
after(async () => server.stop())

function run(program, ...args) {
  return promisify(execFile)(process.execPath, ['--input-type=module', '-e', program, '--', ...args], {
    cwd: fileURLToPath(ROOT), env: { ...process.env, REDIS_URL: server.url }, timeout: 60_000,
  })
}

test('the examples of the README work, one after the other', async () => {
  assert.equal((await run(produce)).stdout, 'READY null []\n')
  const taskq = new Taskq({ url: server.url, namespace: 'shop' })
  const { id: late } = await taskq.enqueue('receipts.render', [5001], { queue: 'receipts' })
  const { id: wrong } = await taskq.enqueue('receipts.render', [-1], { queue: 'receipts' })
  await run(work, '--burst')
  const { stdout } = await run(produce)
  assert.equal(stdout, `SUCCESSFUL { html: '<html lang="en">Receipt of order 4711</html>' } []\n`)
  await until(async () => {
    await run(work, '--burst') // It doesn't wait for what is due later.
    return (await taskq.result(late)).status === 'SUCCESSFUL'
  }, 'it was retried', 60_000)
  assert.equal((await taskq.result(late)).attempts, 2)
  const { status, errors: [{ message }] } = await taskq.result(wrong)
  assert.deepEqual([status, message], ['FAILED', 'There are no such orders.'])
  await taskq.close()
})
