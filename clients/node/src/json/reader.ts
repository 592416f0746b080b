/** JSON as the Python package reads it: integers are never rounded, and what is no JSON is refused. */
import { isUtf8 } from 'node:buffer'

import { Float, isInteger } from './numbers.js'
import { MAX_INT_DIGITS } from './repr.js'

export type Json =
  null | boolean | number | bigint | string | Float | Json[] | { [key: string]: Json } | Map<string, Json>

/** An integer that JSON.parse might round, or 0 that it would give a sign. */
const LONG_INTEGER = /(?<![.\d])\d{16}|-0(?=[\s,\]}]|$)/
/** A float of which JSON.parse might make an integer, as also of one that is closer to it than to any other. */
const INTEGRAL_FLOAT = /\d(?:\.0+|(?:\.\d+)?[eE][+-]?\d+)(?=[\s,\]}]|$)|\.(?:0{5}|9{5})|\d{12}\.\d/
/** A key that JavaScript might move before others. */
const INTEGER_KEY = /"(?:\d|\\u003\d)[^"]*"\s*:/

/** Return the text of UTF-8 bytes, or throw SyntaxError. */
export function decodeUtf8(bytes: Buffer): string {
  if (!isUtf8(bytes)) throw new SyntaxError('The bytes are no UTF-8')
  return bytes.toString()
}

/**
 * Return the value of a JSON text; throw SyntaxError when it is none.
 *
 * Integers beyond ±(2^53-1) are bigints. With `exact`, what is returned is written again as it was: a float of an
 * integral value is a `Float`, and an object whose keys JavaScript would bring into another order is a `Map`.
 */
export function parse(json: string | Buffer, exact = false): Json {
  const text = typeof json === 'string' ? json : decodeUtf8(json)
  if (!LONG_INTEGER.test(text) && !(exact && (INTEGRAL_FLOAT.test(text) || INTEGER_KEY.test(text)))) {
    try {
      return JSON.parse(text)
    } catch {
      // The reader says what is wrong as it does elsewhere.
    }
  }
  return new Reader(text, exact).document()
}

const WORDS = new Map<number, [string, Json]>([
  [code('t'), ['true', true]],
  [code('f'), ['false', false]],
  [code('n'), ['null', null]],
])
const QUOTE = code('"')
const BACKSLASH = code('\\')
const COMMA = code(',')
const BRACE = code('{')
const BRACKET = code('[')
/** What ends an object and an array, by what begins it: two characters further. */
const TO_CLOSER = 2
const SPACE = /[ \t\n\r]*/y
const NUMBER = /-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?/y
const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y
const KEY_OF_ARRAY = /^(?:0|[1-9]\d{0,9})$/

/** An array or object that is being read. */
class Open {
  key = ''
  private readonly items: Json[] = []
  private readonly members = new Map<string, Json>()

  constructor(readonly closer: number) {}

  get isObject(): boolean {
    return this.closer === BRACE + TO_CLOSER
  }

  add(value: Json): void {
    if (this.isObject) this.members.set(this.key, value)
    else this.items.push(value)
  }

  value(exact: boolean): Json {
    if (!this.isObject) return this.items
    return exact && isReordered(this.members.keys()) ? this.members : Object.fromEntries(this.members)
  }
}

/** Reads one text; what is open is on the heap, so that no depth overflows the stack. */
class Reader {
  private at = 0
  private readonly open: Open[] = []

  constructor(
    private readonly text: string,
    private readonly exact: boolean,
  ) {}

  document(): Json {
    for (;;) {
      let value = this.begin()
      while (value !== undefined) {
        const open = this.open.at(-1)
        if (!open) return this.end(value)
        open.add(value)
        value = this.next(open)
      }
    }
  }

  /** Read a scalar or an empty array or object; undefined stands for one whose first item follows. */
  private begin(): Json | undefined {
    const start = this.skipSpace()
    if (start === QUOTE) return this.string()
    if (start !== BRACE && start !== BRACKET) return this.scalar(start)
    this.at++
    const open = new Open(start + TO_CLOSER)
    if (this.skipSpace() === open.closer) {
      this.at++
      return open.value(this.exact)
    }
    this.open.push(open)
    if (open.isObject) this.key(open)
    return undefined
  }

  /** Go on to the next item of what is open, or return what ends here. */
  private next(open: Open): Json | undefined {
    const found = this.skipSpace()
    if (found !== COMMA && found !== open.closer) throw this.error("Expecting ',' delimiter")
    this.at++
    if (found === open.closer) {
      this.open.pop()
      return open.value(this.exact)
    }
    if (open.isObject) this.key(open)
    return undefined
  }

  private key(open: Open): void {
    if (this.skipSpace() !== QUOTE) throw this.error('Expecting property name enclosed in double quotes')
    open.key = this.string()
    if (this.skipSpace() !== code(':')) throw this.error("Expecting ':' delimiter")
    this.at++
  }

  private string(): string {
    const start = this.at++
    let hasEscapes = false
    for (;;) {
      const found = this.text.charCodeAt(this.at)
      if (found === QUOTE) break
      if (Number.isNaN(found)) throw this.error('Unterminated string starting at', start)
      if (found < 0x20) throw this.error('Invalid control character at')
      if (found === BACKSLASH) {
        hasEscapes = true
        if (this.match(ESCAPE) === null) throw this.error('Invalid \\escape')
      } else {
        this.at++
      }
    }
    const token = this.text.slice(start, ++this.at)
    return hasEscapes ? JSON.parse(token) : token.slice(1, -1)
  }

  private scalar(start: number): Json {
    const [word, value] = WORDS.get(start) ?? []
    if (word !== undefined && this.text.startsWith(word, this.at)) {
      this.at += word.length
      return value!
    }
    const at = this.at
    const number = this.match(NUMBER)
    if (number === null) throw this.error('Expecting value')
    const [token, fraction, exponent] = number
    if (fraction !== undefined || exponent !== undefined) return this.float(Number(token))
    if (token.length - (token.startsWith('-') ? 1 : 0) > MAX_INT_DIGITS) {
      throw this.error(`Integer of more than ${MAX_INT_DIGITS} digits`, at)
    }
    const rounded = Number(token) + 0 // no -0
    return Number.isSafeInteger(rounded) ? rounded : BigInt(token)
  }

  private float(value: number): Json {
    return this.exact && isInteger(value) ? new Float(value) : value
  }

  private end(value: Json): Json {
    this.skipSpace()
    if (this.at < this.text.length) throw this.error('Extra data')
    return value
  }

  private skipSpace(): number {
    const found = this.text.charCodeAt(this.at)
    if (found > 0x20) return found
    this.match(SPACE)
    return this.text.charCodeAt(this.at)
  }

  private match(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.at
    const match = pattern.exec(this.text)
    if (match !== null) this.at = pattern.lastIndex
    return match
  }

  private error(what: string, at = this.at): SyntaxError {
    const before = [...this.text.slice(0, at)]
    const line = before.filter((character) => character === '\n').length + 1
    const column = before.length - before.lastIndexOf('\n')
    return new SyntaxError(`${what}: line ${line} column ${column} (char ${before.length})`)
  }
}

/** Tell whether JavaScript would list keys in another order: integers first, the smallest before the others. */
function isReordered(keys: Iterable<string>): boolean {
  let last = -1
  for (const key of keys) {
    const isInteger = KEY_OF_ARRAY.test(key) && Number(key) < 2 ** 32 - 1
    if (isInteger && Number(key) < last) return true
    last = isInteger ? Number(key) : Infinity
  }
  return false
}

function code(character: string): number {
  return character.charCodeAt(0)
}
