// Does what each line on stdin asks, one after the other, and answers with a line: {"done": …}, or what was thrown.
import { createInterface } from 'node:readline'
import { load, settings, Taskq } from './noting.mjs'

const { url, options = {} } = settings
const taskq = new Taskq({ url, ...options })
const [json, scripts] = [await load('json'), await load('scripts')]

// Arguments come as JSON text, so that they are read as the client reads them.
const call = ({ name, args = '[]', kwargs = '{}', options = {} }) => ({
  name,
  args: json.parse(args, true),
  ...options,
  kwargs: json.parse(kwargs, true),
})

const shown = (result) => result && { ...result, result: json.stringify(result.result ?? null), args: json.stringify(result.args) }

const actions = {
  enqueue(asked) {
    const { name, args, ...options } = call(asked)
    return taskq.enqueue(name, args, options)
  },
  async many({ calls }) {
    return (await taskq.enqueueMany(calls.map(call))).map(({ id, word }) => [id, word])
  },
  result: async ({ id }) => shown(await taskq.result(id)),
  async results({ ids }) {
    const found = []
    for (let first = 0; first < ids.length; first += 100) {
      found.push(...(await Promise.all(ids.slice(first, first + 100).map((id) => taskq.result(id)))))
    }
    return found.map(shown)
  },
  script: ({ name }) => scripts.load(name).sha,
}

for await (const line of createInterface({ input: process.stdin })) {
  const { what, ...asked } = JSON.parse(line)
  let answer
  try {
    answer = { done: (await actions[what](asked)) ?? null }
  } catch (error) {
    answer = { error: error.constructor.name, message: error.message }
  }
  process.stdout.write(JSON.stringify(answer, (_, value) => (typeof value === 'bigint' ? String(value) : value)) + '\n')
}
await taskq.close()
