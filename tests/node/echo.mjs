// JSON without Redis: for each line on stdin one on stdout, `=` and what came of it, or `!` and why it was refused.
import { createReadStream, writeSync } from 'node:fs'
import { made } from '../../clients/node/test/vectors.js'
import { load, settings } from './noting.mjs'
import { Source } from './values.mjs'

const { Float, parse, stringify } = await load('json')

const doubles = new Float64Array(1)
const bits = Buffer.from(doubles.buffer)

const actions = {
  exact: (line) => stringify(parse(line, true), 'args'),
  plain: (line) => stringify(parse(line), 'args'),
  // What JSON can't hold, as golden vectors describe it.
  described: (line) => stringify(made(JSON.parse(line)), 'args'),
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
