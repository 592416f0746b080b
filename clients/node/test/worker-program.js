// A worker in a process of its own, for tests that kill one: started with a URL and options.
import { Redis } from 'ioredis'

import { Taskq, Worker } from '../dist/index.js'

const [, , url, options] = process.argv
if (url) {
  const redis = new Redis(url)
  const taskq = new Taskq({ url })
  const begun = (id) => redis.rpush('begun', `${process.pid} ${id}`)
  const worker = new Worker(taskq, {
    queues: ['default'],
    ...JSON.parse(options),
    tasks: {
      note: (args, kwargs, { id }) => begun(id),
      hang: async (args, kwargs, { id }) => {
        await begun(id)
        await new Promise(() => {})
      },
      until: async (args, kwargs, { id }) => {
        await begun(id)
        while ((await redis.exists('gate')) === 0) await new Promise((resolve) => setTimeout(resolve, 10))
        return 'passed'
      },
      block: async (args, kwargs, { id }) => {
        await begun(id)
        for (const end = performance.now() + 1_000; performance.now() < end; );
      },
    },
  })
  const { forced } = await worker.run({ signals: true })
  process.exit(forced ? 5 : 0)
}
