// JSON without Redis: for each line on stdin one on stdout, `=` and what came of it, or `!` and why it was refused.
import { createReadStream, writeSync } from 'node:fs'
import { made } from '../../clients/node/test/vectors.js'
import { load, settings } from './noting.mjs'
import { Source } from './values.mjs'

const [{ Float, parse, stringify }, { Envelope, parseTask }, { attemptOf }] = await Promise.all(
  ['json', 'envelope', 'records'].map(load),
)

const read = (line, exact) => {
  try {
    return Envelope.fromBytes(line, exact)
  } catch (error) {
    throw new Error(`${error.constructor.name}: ${error.message}`)
  }
}

const doubles = new Float64Array(1)
const bits = Buffer.from(doubles.buffer)

const actions = {
  exact: (line) => stringify(parse(line, true), 'args'),
  plain: (line) => stringify(parse(line), 'args'),
  // What JSON can't hold, as golden vectors describe it.
  described: (line) => stringify(made(JSON.parse(line)), 'args'),
  envelope: (line) => read(line, true).toBytes(),
  // Whatever is read of an envelope, it is read or refused alike.
  verdict: (line) => (read(line, false), 'read'),
  head: (line) => {
    const [head, envelope] = parseTask(Buffer.from(JSON.parse(line), 'latin1'), 'given')
    return stringify([Object.values(head), envelope.toString('latin1')], 'args')
  },
  attempt: (line) => {
    const found = attemptOf(Buffer.from(JSON.parse(line), 'latin1'), true)
    const { attempt, token, startedAt, endedAt, child, error, result } = found
    const why = error && [error.error, error.message, error.traceback, error.reason]
    return stringify([attempt, token, startedAt, endedAt, child, why, result], 'args')
  },
  double: (line) => {
    bits.write(line.toString(), 'hex')
    return stringify(doubles[0])
  },
}

const answer = (action, line) => {
  try {
    return '=' + action(line)
  } catch (error) {
    return '!' + error.message
  }
}

function* lines(data) {
  for (let from = 0; from < data.length; ) {
    const end = data.indexOf(10, from)
    yield data.subarray(from, end)
    from = end + 1
  }
}

const write = (texts) => {
  for (let rest = Buffer.from(texts.map((text) => text + '\n').join('')); rest.length > 0; ) {
    rest = rest.subarray(writeSync(1, rest))
  }
}

if (settings.draw) {
  const source = new Source(settings.draw.seed, { Float })
  write(Array.from({ length: settings.draw.count }, () => answer((value) => stringify(value, 'args'), source.value())))
} else {
  const data = Buffer.concat(await createReadStream(null, { fd: 0 }).toArray())
  write([...lines(data)].map((line) => answer(actions[settings.action], line)))
}
