/**
 * JSON as the Python package writes it, byte for byte; what JSON would bend or lose is refused, with its place.
 *
 * A safe integral number and a bigint are integers; all other numbers are floats, and so is a `Float`.
 */
import { Float, floatText, isInteger } from './numbers.js'
import { MAX_INT_DIGITS, isRecord, isTooLong, kindOf, repr } from './repr.js'

/** Levels of arrays and objects in each other; other readers of JSON, and Python's stack, end soon behind it. */
const MAX_DEPTH = 100

/** Pieces of a path that are shown before it is cut. */
const SHOWN = 8

const LONE_SURROGATE = /\p{Surrogate}/u
const LONE_SURROGATES = /\p{Surrogate}/gu
/** What stands in no text as it is, and what only might not. */
const UNSAFE = /["\\\x00-\x1f\ud800-\udfff]/

const HINTS: [kind: Function, hint: string][] = [
  [Date, 'pass its toISOString()'],
  [Set, 'pass an array'],
  [Promise, 'await it'],
  [Error, 'pass its message'],
  [Uint8Array, 'pass text, for instance base64'],
  [ArrayBuffer, 'pass text, for instance base64'],
]

/** A value can't travel; the keys on the way to it are gathered while the stack unwinds, innermost first. */
class Refused {
  readonly path: string[] = []

  constructor(
    readonly kind: typeof TypeError | typeof RangeError,
    readonly reason: string,
  ) {}

  error(root: string): Error {
    const pieces = this.path.reverse()
    const shown = pieces.slice(0, SHOWN).join('') + (pieces.length > SHOWN ? '…' : '')
    const unsupported = this.kind === TypeError ? 'type' : 'value'
    return new this.kind(`Unsupported ${unsupported}: ${root}${shown} ${this.reason}`)
  }
}

/**
 * Return a value as compact JSON; throw TypeError or RangeError that says where in `what` it is none.
 *
 * `keepsAll` writes each lone surrogate out as its escape, `\udc80`, instead of refusing it.
 */
export function stringify(value: unknown, what = 'value', keepsAll = false): string {
  try {
    return new Writer(keepsAll).value(value, 0)
  } catch (error) {
    throw error instanceof Refused ? error.error(what) : error
  }
}

class Writer {
  constructor(private readonly keepsAll: boolean) {}

  value(value: unknown, depth: number): string {
    switch (typeof value) {
      case 'string':
        return this.text(value)
      case 'number':
        return isInteger(value) ? `${value}` : float(value)
      case 'boolean':
        return value ? 'true' : 'false'
      case 'bigint':
        return integer(value)
      case 'object':
        if (value === null) return 'null'
        if (Array.isArray(value)) return this.array(value, depth)
        if (value instanceof Float) return float(+value)
        if (isRecord(value)) return this.object(value, depth)
    }
    throw new Refused(TypeError, `is ${kindOf(value)}, which JSON can't carry${hint(value)}.`)
  }

  private array(value: unknown[], depth: number): string {
    checkDepth(depth)
    let text = '['
    let at = 0
    try {
      for (; at < value.length; at++) text += (at ? ',' : '') + this.value(value[at], depth + 1)
    } catch (error) {
      if (error instanceof Refused) error.path.push(`[${at}]`)
      throw error
    }
    return text + ']'
  }

  private object(value: object, depth: number): string {
    checkDepth(depth)
    let text = ''
    for (const key of value instanceof Map ? value.keys() : keys(value)) {
      const name = this.key(key)
      const item = value instanceof Map ? value.get(key) : (value as Record<string, unknown>)[key]
      try {
        text += `${text ? ',' : ''}${name}:${this.value(item, depth + 1)}`
      } catch (error) {
        if (error instanceof Refused) error.path.push(`[${repr(key)}]`)
        throw error
      }
    }
    return `{${text}}`
  }

  private key(key: unknown): string {
    if (typeof key === 'string') return this.text(key)
    const shown = typeof key === 'symbol' ? String(key) : repr(key)
    throw new Refused(TypeError, `has the key ${shown}, and JSON has only strings as keys.`)
  }

  private text(text: string): string {
    if (!UNSAFE.test(text)) return `"${text}"`
    if (!LONE_SURROGATE.test(text)) return JSON.stringify(text)
    if (!this.keepsAll) throw new Refused(RangeError, 'holds a lone surrogate, which is no text.')
    return JSON.stringify(text.replace(LONE_SURROGATES, (half) => `\\u${half.charCodeAt(0).toString(16)}`))
  }
}

function keys(value: object): (string | symbol)[] {
  const symbols = Object.getOwnPropertySymbols(value)
  return symbols.length ? [...Object.keys(value), ...symbols] : Object.keys(value)
}

function checkDepth(depth: number): void {
  if (depth < MAX_DEPTH) return
  throw new Refused(RangeError, `is nested more than ${MAX_DEPTH} levels deep, or contains itself.`)
}

function integer(value: bigint): string {
  if (isTooLong(value)) throw new Refused(RangeError, `is an integer of more than ${MAX_INT_DIGITS} digits.`)
  return String(value)
}

function float(value: number): string {
  if (!Number.isFinite(value)) throw new Refused(RangeError, `is ${value}, which JSON doesn't have.`)
  return floatText(value)
}

function hint(value: unknown): string {
  if (value === undefined) return ': pass null'
  const found = HINTS.find(([kind]) => value instanceof kind)
  return found ? `: ${found[1]}` : ''
}
