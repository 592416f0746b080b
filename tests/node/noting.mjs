// What worker.mjs and hand.mjs share: the client as it was built, and the ledger that ledger.py reads.
import { createRequire } from 'node:module'

const client = new URL('../../clients/node/', import.meta.url)
const { Redis } = createRequire(new URL('package.json', client))('ioredis')

export const { Bury, Float, Retry, Taskq, Worker } = await import(new URL('dist/index.js', client))
export const load = (name) => import(new URL(`dist/${name}.js`, client))
export const settings = JSON.parse(process.argv[2] ?? '{}')
export const openLedger = () => new Redis(settings.url.replace(/\d+$/, '1'))
