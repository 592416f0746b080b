// Values for the fuzz as JavaScript has them, drawn by a seed.
const INTEGERS = [0, 1, -1, 10, 2 ** 31, 2 ** 32, 2 ** 53 - 1, 1 - 2 ** 53, 123456789012345]
const BIG = [2n ** 53n, 2n ** 53n + 1n, -(2n ** 63n), 2n ** 64n, 10n ** 21n, 10n ** 400n, 5n, 0n, -7n]
const FLOATS = [
  ...[-0, 0.1, 0.1 + 0.2, 1e-4, 1e-5, 1e-6, 1e-7, 1e16, 1e17, 1e20, 1e21, 1e22, 1e23, 2 ** 53, 2 ** 53 + 2, -(2 ** 63)],
  ...[Number.MIN_VALUE, 2.2250738585072014e-308, Number.MAX_VALUE, -Number.MAX_VALUE, Number.EPSILON, 123456.789],
]
const TEXTS = [
  ...['', 'a', '"', '\\', '\\u0000', '/', '\0', '\0\x01\x1f', '\b\f\n\r\t\v', '\x7f', '\x80\x9f', '\u2028', '\u2029'],
  ...['\ufeff', '\ufffd', '\uffff', 'é', 'e\u0301', '語', '😀', '𐐷\0', '\u{10ffff}', 'null', '1.0', '\ud7ff\ue000'],
]
const KEYS = ['', '0', '1', '10', '01', '-1', '4294967294', '4294967295', '__proto__', 'constructor', 'toJSON']

// https://github.com/bryc/code/blob/master/jshash/PRNGs.md: mulberry32
const numbers = (seed) => () => {
  seed = (seed + 0x6d2b79f5) | 0
  let t = Math.imul(seed ^ (seed >>> 15), 1 | seed)
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
  return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
}

export class Source {
  constructor(seed, { Float }) {
    this.random = numbers(seed)
    this.Float = Float
  }

  below = (most) => Math.floor(this.random() * most)
  among = (list) => list[this.below(list.length)]
  word = () => this.below(2 ** 32)
  some = (size, draw) => Array.from({ length: size }, draw)

  value(depth = 0) {
    const kind = this.random()
    if (depth < 5 && kind < 0.35) {
      return this.container(kind, this.among([0, 1, 1, 2, 3, 6]), () => this.value(depth + 1))
    }
    return this.among([this.integer, this.big, this.real, this.real, this.text, this.text, this.constant])()
  }

  container(kind, size, draw) {
    if (kind < 0.15) return this.some(size, draw)
    const entries = this.some(size, () => [this.key(), draw()])
    // fromEntries defines properties, __proto__ too.
    return kind < 0.25 ? Object.fromEntries(entries) : new Map(entries)
  }

  constant = () => this.among([null, true, false])
  integer = () => (this.random() < 0.4 ? this.among(INTEGERS) : this.below(2 ** this.among([4, 20, 53])))

  big = () => {
    if (this.random() < 0.4) return this.among(BIG)
    const digits = this.some(this.among([1, 17, 40, 300]), () => this.below(10)).join('')
    return BigInt(digits) * (this.random() < 0.5 ? 1n : -1n)
  }

  real = () => {
    const kind = this.random()
    if (kind < 0.3) return this.among(FLOATS)
    if (kind < 0.4) return new this.Float(this.among([0, -0, 1, -3, 2 ** 53 - 1, 1e15, 0.5, 1e300]))
    return kind < 0.6 ? this.below(10 ** 6) / 10 ** this.below(7) : this.anyDouble()
  }

  anyDouble = () => {
    const found = new Float64Array(new Uint32Array([this.word(), this.word()]).buffer)[0]
    return Number.isFinite(found) ? found : -0
  }

  text = () => {
    if (this.random() < 0.5) return this.among(TEXTS)
    return this.some(this.among([1, 2, 5, 20]), this.character).join('')
  }

  character = () => {
    const [low, high] = this.among([[0, 0x20], [0x20, 0x7f], [0x7f, 0x250], [0x2000, 0xd7ff], [0xe000, 0x10ffff]])
    return String.fromCodePoint(low + this.below(high - low + 1))
  }

  key = () => (this.random() < 0.4 ? this.among(KEYS) : this.random() < 0.2 ? String(this.word()) : this.text())
}
