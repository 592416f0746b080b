/** Record ids: ULIDs, 26 characters, growing within a process (https://github.com/ulid/spec). */
import { randomFillSync } from 'node:crypto'

const ALPHABET = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'
const TIME_DIGITS = 10
const DIGITS = 26
const BASE = 32

/** The digits of the last id, which the next one of the same millisecond counts on from. */
const digits = new Uint8Array(DIGITS)
let lastMillisecond = 0

/** Return a new id, larger than all that this process drew before. */
export function newId(): string {
  const millisecond = Date.now()
  if (millisecond > lastMillisecond) {
    lastMillisecond = millisecond
    begin(millisecond)
  } else {
    increment()
  }
  let id = ''
  for (const digit of digits) id += ALPHABET[digit]
  return id
}

function begin(millisecond: number): void {
  randomFillSync(digits, TIME_DIGITS)
  for (let at = TIME_DIGITS; at < DIGITS; at++) digits[at]! %= BASE
  // Counting up from the lower half never overflows into the time.
  digits[TIME_DIGITS]! %= BASE / 2
  for (let at = TIME_DIGITS - 1, rest = millisecond; at >= 0; at--, rest = Math.floor(rest / BASE)) {
    digits[at] = rest % BASE
  }
}

function increment(): void {
  let at = DIGITS - 1
  while (digits[at] === BASE - 1) digits[at--] = 0
  digits[at]!++
}
