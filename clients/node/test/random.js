// Random values that JSON carries, the same in each run.
import { Float } from '../dist/json.js'

const CHARACTERS = [
  ...'abc019-.eE{}[]:, "\\/\'\n\t\b\0\x1f\x7f\x80\xadé\u2028\ufeff😀\u{10ffff}',
  '\\u0031',
  '1.0',
  '-0,',
]
const KEYS = [
  '__proto__',
  'constructor',
  'length',
  '0',
  '1',
  '10',
  '01',
  '-1',
  '4294967294',
  '4294967295',
  '',
  'a',
  'b',
  'é',
]
const DEPTH = 4

/** Yield so many values. */
export function* draws(count) {
  const random = numbers(count)
  const below = (most) => Math.floor(random() * most)
  const one = (choices) => choices[below(choices.length)]
  const text = () => Array.from({ length: below(12) }, () => one(CHARACTERS)).join('')
  const bits = new DataView(new ArrayBuffer(8))
  const SCALARS = [
    () => one([null, true, false]),
    text,
    () => below(200) - 100,
    () => BigInt(Number.MAX_SAFE_INTEGER) + BigInt(below(7) - 3),
    () => (below(2) ? 1n : -1n) * 7n ** BigInt(below(80)),
    () => new Float(below(2000) - 1000),
    () => (random() - 0.5) * 10 ** (below(60) - 30),
    () => {
      bits.setUint32(0, random() * 2 ** 32)
      bits.setUint32(4, random() * 2 ** 32)
      return Number.isFinite(bits.getFloat64(0)) ? bits.getFloat64(0) : -0
    },
  ]
  const value = (depth) => {
    const kind = depth < DEPTH ? below(4) : 0
    if (kind < 2) return one(SCALARS)()
    if (kind === 2) return Array.from({ length: below(5) }, () => value(depth + 1))
    return new Map(Array.from({ length: below(6) }, () => [below(3) ? one(KEYS) : text(), value(depth + 1)]))
  }
  for (let index = 0; index < count; index++) yield value(0)
}

/** Return a source of numbers from 0 to 1 (mulberry32). */
function numbers(seed) {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
