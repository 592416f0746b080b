/** Numbers as Python writes them. */

/** A float that is written as one whatever its value: `Float(1)` is `1.0`, where the number 1 is the integer `1`. */
export class Float extends Number {}

/** Tell whether a number is written as an integer: no float of this value is one. */
export function isInteger(value: number): boolean {
  return Number.isSafeInteger(value) && (value !== 0 || 1 / value > 0)
}

/** Return a finite number as Python's repr writes a float: the shortest digits that read back as the same. */
export function floatText(value: number): string {
  const size = Math.abs(value)
  if (size >= 1e16 || (size < 1e-4 && size > 0)) {
    const text = value.toExponential()
    const sign = text.indexOf('e') + 1
    return text.length - sign > 2 ? text : text.slice(0, sign + 1) + '0' + text.slice(sign + 1)
  }
  if (!Number.isInteger(value)) return String(value)
  return Object.is(value, -0) ? '-0.0' : `${value}.0`
}
