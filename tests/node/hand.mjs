// Does what each line on stdin asks, one after the other, and answers with a line: {"done": …}, or what was thrown.
import { createInterface } from 'node:readline'
import { Float, load, settings, Taskq } from './noting.mjs'
import { Source } from './values.mjs'

const { url, options = {} } = settings
const taskq = new Taskq({ url, ...options })
const [json, names, retry, scripts] = await Promise.all(['json', 'names', 'retry', 'scripts'].map(load))

// Arguments come as JSON text, so that they are read as the client reads them.
const call = ({ name, args = '[]', kwargs = '{}', options = {} }) => ({
  name,
  args: json.parse(args, true),
  ...options,
  kwargs: json.parse(kwargs, true),
})

class Point {}

const odd = () => {
  const itself = []
  itself.push({ again: itself })
  let deep = []
  for (let level = 0; level < 2000; level += 1) deep = [deep]
  return {
    ...{ nan: NaN, infinity: Infinity, negative: -Infinity, surrogate: '\ud800x', long: 10n ** 4300n, deep, itself },
    ...{ undefined, function: () => 1, symbol: Symbol('s'), date: new Date(0), set: new Set([1]), pattern: /a/ },
    ...{ instance: new Point(), error: new Error('e'), bytes: Buffer.from('a'), promise: Promise.resolve(1) },
    ...{ hole: [, 1], key: new Map([[1, 2]]) },
  }
}

const shown = (result) => result && { ...result, result: json.stringify(result.result) }

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
  async draw({ seed, count, name, queue }) {
    const source = new Source(seed, { Float })
    const calls = Array.from({ length: count }, () => [source.value()])
    const handles = await taskq.enqueueMany(calls.map((args) => ({ name, args, queue })))
    return handles.map(({ id }, place) => [id, json.stringify(calls[place][0])])
  },
  script: ({ name }) => scripts.load(name).sha,
  check: ({ name, value }) => names[name](value),
  delays({ cases }) {
    return cases.map(([attempt, random, policy]) => retry.RetryPolicy.parse(policy).delayMs(attempt, random))
  },
  // Of each value that can't travel, why; `taken` where it wasn't refused.
  async refuse() {
    const reasons = {}
    for (const [name, value] of Object.entries(odd())) {
      try {
        await taskq.enqueue('border.work', [1, { deep: [value] }])
        reasons[name] = 'taken'
      } catch (error) {
        reasons[name] = error.message
      }
    }
    return reasons
  },
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
