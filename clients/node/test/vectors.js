// The golden vectors, with descriptions made into values; docs/reference/protocol.md says what each means.
import { readFileSync } from 'node:fs'

import { Float } from '../dist/json.js'

export const VECTORS = JSON.parse(
  readFileSync(new URL('../../../docs/reference/protocol-vectors.json', import.meta.url)),
)

const SHOWN = ['id', 'name', 'text', 'read', 'hex', 'policy', 'task', 'lines', 'value', 'script', 'line', 'fields']

const MADE = {
  integer: (digits) => (Number.isSafeInteger(Number(digits)) ? Number(digits) : BigInt(digits)),
  digits: (count) => 10n ** BigInt(Math.abs(count) - 1) * (count > 0 ? 1n : -1n),
  double: (bits) => float(Buffer.from(bits, 'hex').readDoubleBE()),
  float: (name) => ({ nan: NaN, inf: Infinity, '-inf': -Infinity })[name],
  points: (points) => String.fromCodePoint(...points),
  surrogate: (unit) => String.fromCharCode(parseInt(unit, 16)),
  repeat: ([text, count]) => text.repeat(count),
  concat: (parts) => parts.map(made).join(''),
  nested: (depth) => Array.from({ length: depth - 1 }).reduce((value) => [value], []),
  list: (items) => items.map(made),
  object: (pairs) => new Map(pairs.map(([name, value]) => [made(name), made(value)])),
}

function float(value) {
  return Number.isSafeInteger(value) && !Object.is(value, -0) ? new Float(value) : value
}

/** Return the value that is described; what is no object stands for itself. */
export function made(described) {
  if (typeof described !== 'object' || described === null) return described
  const [[kind, detail], ...others] = Object.entries(described)
  if (!(kind in MADE) || others.length > 0) throw new Error(`No value is described by ${JSON.stringify(described)}`)
  return MADE[kind](detail)
}

/** Return the bytes of a described text, or those that are written out. */
export function madeBytes(described) {
  return described.hex === undefined ? Buffer.from(made(described)) : Buffer.from(described.hex, 'hex')
}

/** Return the vectors of a section that have a field, each with a name for its test. */
export function entries(section, field = null) {
  const found = VECTORS[section].filter((vector) => field === null || field in vector)
  if (found.length === 0) throw new Error(`No vectors in ${section}`)
  return found.map((vector) => [shown(vector), vector])
}

function shown(vector) {
  return JSON.stringify(vector[SHOWN.find((field) => field in vector)]).slice(0, 60)
}
