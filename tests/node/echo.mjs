// JSON without Redis: for each line on stdin one on stdout, `=` and what came of it, or `!` and why it was refused.
import { createReadStream, writeSync } from 'node:fs'
import { load, settings } from './noting.mjs'
import { Source } from './values.mjs'

const { Float, parse, stringify } = await load('json')

// Values that JSON can't hold, as they are described in docs/reference/protocol-vectors.json.
const SPECIAL = {
  float: (name) => ({ nan: NaN, infinity: Infinity, '-infinity': -Infinity })[name],
  surrogate: (code) => String.fromCharCode(parseInt(code, 16)),
  digits: (count) => 10n ** BigInt(count - 1),
  nested: (depth) => {
    let made = []
    for (let level = 1; level < depth; level += 1) made = [made]
    return made
  },
}

const made = (described) => {
  if (Array.isArray(described)) return described.map(made)
  if (described === null || typeof described !== 'object') return described
  const [[name, value]] = Object.entries(described)
  if (name in SPECIAL) return SPECIAL[name](value)
  // {"pairs": [[key, value], …]}: keys may be special as well.
  return new Map(value.map(([key, item]) => [made(key), made(item)]))
}

const doubles = new Float64Array(1)
const bits = Buffer.from(doubles.buffer)

const actions = {
  exact: (line) => stringify(parse(line, true), 'args'),
  plain: (line) => stringify(parse(line), 'args'),
  made: (line) => stringify(made(JSON.parse(line)), 'args'),
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
