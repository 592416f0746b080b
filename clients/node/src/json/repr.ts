/** Values as Python's repr writes them, so that messages read the same whichever language refused something. */
import { Float, floatText, isInteger } from './numbers.js'

/** Longest integer that Python writes as text, in digits. */
export const MAX_INT_DIGITS = 4300
const TOO_LONG = 10n ** BigInt(MAX_INT_DIGITS)
/** Levels that are shown: what uses this shows no more than 100 characters of nested values. */
const SHOWN_LEVELS = 100

const UNPRINTABLE = /\p{C}|(?! )\p{Z}/gu
const SHORT: Record<string, string> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' }

/** Tell whether Python has no text for an integer. */
export function isTooLong(value: bigint): boolean {
  return value >= TOO_LONG || value <= -TOO_LONG
}

/** Tell whether a text has only characters that Python's `isprintable` takes for such. */
export function isPrintable(text: string): boolean {
  return text.search(UNPRINTABLE) < 0
}

/** Values that are shown: arrays that hold one another several times have no end. */
const SHOWN_VALUES = 1000

/** Return a JSON value as Python's repr writes it, and any other as what it is: `a Date`. */
export function repr(value: unknown, levels = SHOWN_LEVELS, room = { values: SHOWN_VALUES }): string {
  switch (typeof value) {
    case 'string':
      return textRepr(value)
    case 'number':
      return numberRepr(value)
    case 'bigint':
      return isTooLong(value) ? 'such a long number' : String(value)
    case 'boolean':
      return value ? 'True' : 'False'
  }
  if (value === null) return 'None'
  if (value instanceof Float) return Number.isFinite(+value) ? floatText(+value) : numberRepr(+value)
  if (levels === 0 || room.values <= 0) return '…'
  room.values -= 1
  if (Array.isArray(value)) return `[${value.map((item) => repr(item, levels - 1, room)).join(', ')}]`
  if (!isRecord(value)) return kindOf(value)
  const entries = value instanceof Map ? [...value] : Object.entries(value)
  return `{${entries.map(([key, item]) => `${repr(key, 1)}: ${repr(item, levels - 1, room)}`).join(', ')}}`
}

/** Tell whether a value is a plain object, of whichever realm, or a Map. */
export function isRecord(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) return false
  const prototype = Object.getPrototypeOf(value)
  return prototype === null || Object.getPrototypeOf(prototype) === null || value instanceof Map
}

/** Return what a value is, with its article: `a Date`, `a function`, `undefined`. */
export function kindOf(value: unknown): string {
  if (value === undefined || value === null) return String(value)
  if (typeof value !== 'object') return `a ${typeof value}`
  return `a ${Object.getPrototypeOf(value)?.constructor?.name || 'object'}`
}

function numberRepr(value: number): string {
  if (Number.isFinite(value)) return isInteger(value) ? String(value) : floatText(value)
  return Number.isNaN(value) ? 'nan' : value > 0 ? 'inf' : '-inf'
}

function textRepr(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'"
  const escaped = text.replaceAll('\\', '\\\\').replace(UNPRINTABLE, escape)
  return quote + (quote === "'" ? escaped.replaceAll("'", "\\'") : escaped) + quote
}

function escape(character: string): string {
  const code = character.codePointAt(0)!
  const hex = code.toString(16)
  if (code > 0xffff) return `\\U${hex.padStart(8, '0')}`
  return SHORT[character] ?? (code > 0xff ? `\\u${hex.padStart(4, '0')}` : `\\x${hex.padStart(2, '0')}`)
}
