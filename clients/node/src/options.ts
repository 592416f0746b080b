/** Checks of what applications give; each returns the value in the form that is stored, or throws. */

import { inspect } from 'node:util'

import { LONGEST_MS } from './envelope.js'
import { kindOf } from './json/repr.js'

/** The years that Python's dates have, in ms. */
const FIRST_MS = -62_135_596_800_000
const LAST_MS = 253_402_300_799_999

/** Characters of a wrong value that are shown. */
const SHOWN = 50

/** Throw `TypeError` for what is no object; its text isn't shown, for it may be a URL with a password. */
export function checkObject(what: string, given: unknown): void {
  if (typeof given === 'object' && given !== null && !Array.isArray(given)) return
  throw new TypeError(`${what} takes an object, not ${Array.isArray(given) ? 'an array' : kindOf(given)}.`)
}

/** Throw `TypeError` for a name that isn't known: it would be read over, and meant something. */
export function checkNames(what: string, given: object, known: readonly string[]): void {
  checkObject(what, given)
  for (const name of Object.keys(given)) {
    if (!known.includes(name)) throw new TypeError(`${what} has no option '${name}'; it takes ${known.join(', ')}.`)
  }
}

/** Return true or false. */
export function flag(name: string, value: unknown): boolean {
  if (typeof value !== 'boolean') throw new TypeError(`${name} must be true or false, not ${shown(value)}.`)
  return value
}

/** Return a whole number from 1. */
export function count(name: string, value: unknown): number {
  if (!Number.isSafeInteger(value) || (value as number) < 1) {
    throw new RangeError(`${name} must be a whole number from 1 to ${Number.MAX_SAFE_INTEGER}, not ${shown(value)}.`)
  }
  return value as number
}

/** Return whole milliseconds, rounded up, so that no time but 0 becomes 0. */
export function milliseconds(name: string, value: unknown, least = 0, most = LONGEST_MS): number {
  if (typeof value !== 'number' || !(value >= least && value <= most)) {
    throw new RangeError(`${name} must be milliseconds from ${least} to ${most}, not ${shown(value)}.`)
  }
  return Math.ceil(value)
}

/** Return whole milliseconds until a task may run; a moment that is over is now. */
export function delay(name: string, value: unknown): number {
  if (typeof value !== 'number' || Number.isNaN(value)) {
    throw new RangeError(`${name} must be a number of milliseconds, not ${shown(value)}.`)
  }
  if (Date.now() + value > LAST_MS) throw new RangeError(`${name} lies beyond the year 9999.`)
  return Math.max(Math.ceil(value), 0)
}

/** Return a date in ms since the epoch. */
export function moment(name: string, value: unknown): number {
  if (!(value instanceof Date) || Number.isNaN(value.getTime())) {
    throw new TypeError(`${name} must be a valid Date, not ${shown(value)}.`)
  }
  const ms = value.getTime()
  if (ms < FIRST_MS || ms > LAST_MS) throw new RangeError(`${name} must lie in the years 1 to 9999.`)
  return ms
}

/** Return a wrong value as JavaScript writes it: '5' isn't 5. */
export function shown(value: unknown): string {
  return inspect(value, { depth: 0, breakLength: Infinity }).slice(0, SHOWN)
}
