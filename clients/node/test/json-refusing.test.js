import assert from 'node:assert/strict'
import { describe, test } from 'node:test'

import { Float, stringify } from '../dist/json.js'
import { refusal } from './json.js'

/** What is nested so deep, in arrays and objects in turn. */
function nested(levels) {
  let value = null
  for (let level = 0; level < levels; level++) value = level % 2 ? [value] : { a: value }
  return value
}

describe('refusing', () => {
  class Receipt {}
  const KINDS = [
    [undefined, 'undefined', ': pass null'],
    [() => 1, 'a function', ''],
    [Symbol('s'), 'a symbol', ''],
    [new Receipt(), 'a Receipt', ''],
    [new Date(), 'a Date', ': pass its toISOString()'],
    [new Set(), 'a Set', ': pass an array'],
    [Promise.resolve(), 'a Promise', ': await it'],
    [new TypeError('no'), 'a TypeError', ': pass its message'],
    [Buffer.from('x'), 'a Buffer', ': pass text, for instance base64'],
    [new Uint8Array(1), 'a Uint8Array', ': pass text, for instance base64'],
    [new ArrayBuffer(1), 'a ArrayBuffer', ': pass text, for instance base64'],
    [new Float64Array(1), 'a Float64Array', ''],
    [/x/, 'a RegExp', ''],
    [new String('x'), 'a String', ''],
    [new Number(1), 'a Number', ''],
    [Object.create({ constructor: undefined }), 'a object', ''],
  ]
  for (const [value, kind, hint] of KINDS) {
    test(`${kind} is no JSON type`, () => {
      const reason = `Unsupported type: args[1]['a'] is ${kind}, which JSON can't carry${hint}.`
      assert.throws(() => stringify([0, { a: value }], 'args'), refusal(TypeError, reason))
    })
  }

  test('a hole of an array is undefined', () => {
    assert.throws(
      () => stringify([1, , 2]),
      refusal(TypeError, "Unsupported type: value[1] is undefined, which JSON can't carry: pass null."),
    )
  })

  test('keys are strings', () => {
    const hasKey = (key) =>
      refusal(TypeError, `Unsupported type: value[0] has the key ${key}, and JSON has only strings as keys.`)
    assert.throws(() => stringify([new Map([[1, 2]])]), hasKey('1'))
    assert.throws(() => stringify([{ [Symbol('s')]: 1 }]), hasKey('Symbol(s)'))
  })

  for (const [value, name] of [
    [NaN, 'NaN'],
    [-Infinity, '-Infinity'],
    [new Float(Infinity), 'Infinity'],
  ]) {
    test(`${name} is no number of JSON`, () => {
      assert.throws(
        () => stringify({ a: value }),
        refusal(RangeError, `Unsupported value: value['a'] is ${name}, which JSON doesn't have.`),
      )
    })
  }

  test('integers have at most 4300 digits', () => {
    assert.equal(stringify(-(10n ** 4300n) + 1n).length, 4301)
    const reason = refusal(RangeError, 'Unsupported value: value is an integer of more than 4300 digits.')
    assert.throws(() => stringify(10n ** 4300n), reason)
    assert.throws(() => stringify(-(10n ** 4300n)), reason)
  })

  test('what is nested 100 levels deep is written, and no deeper', () => {
    assert.equal(stringify(nested(100)).length, JSON.stringify(nested(100)).length)
    const place = "value[0]['a'][0]['a'][0]['a'][0]['a']…"
    const reason = `Unsupported value: ${place} is nested more than 100 levels deep, or contains itself.`
    assert.throws(() => stringify(nested(102)), refusal(RangeError, reason))
  })

  test('what contains itself is refused by its depth', () => {
    const value = []
    value.push(value)
    assert.throws(() => stringify(value), /^RangeError: .* is nested more than 100 levels deep, or contains itself\.$/)
  })

  test('a place of eight keys is shown whole, and a longer one is cut', () => {
    const at = (place) => refusal(RangeError, `Unsupported value: value${place} is NaN, which JSON doesn't have.`)
    assert.throws(() => stringify([[[[[[[[NaN]]]]]]]]), at('[0]'.repeat(8)))
    assert.throws(() => stringify([[[[[[[[[NaN]]]]]]]]]), at(`${'[0]'.repeat(8)}…`))
  })

  test('a lone surrogate is no text, in a value and in a key', () => {
    const reason = (place) =>
      refusal(RangeError, `Unsupported value: ${place} holds a lone surrogate, which is no text.`)
    assert.throws(() => stringify({ a: ['\udc80'] }), reason("value['a'][0]"))
    assert.throws(() => stringify({ a: { '😀\ud83d': 1 } }), reason("value['a']"))
  })

  test('a lone surrogate is written out where all is kept', () => {
    const text = stringify({ 'a\udc80': '\ud83d😀"\ud800' }, 'value', true)
    assert.equal(text, '{"a\\\\udc80":"\\\\ud83d😀\\"\\\\ud800"}')
  })

  test('what an accessor throws is thrown as it is', () => {
    const failure = new Error('no')
    assert.throws(
      () =>
        stringify([
          {
            get a() {
              throw failure
            },
          },
        ]),
      (error) => error === failure,
    )
  })

  const KEYS = [
    ["it's", `["it's"]`],
    [`'"`, `['\\'"']`],
    ['\\\n\x00\x85\xad\u0378\u200b\uffff😀\u{e0001}', `['\\\\\\n\\x00\\x85\\xad\\u0378\\u200b\\uffff😀\\U000e0001']`],
  ]
  for (const [key, shown] of KEYS) {
    test(`the place ${shown} is written as Python writes it`, () => {
      assert.throws(
        () => stringify({ [key]: NaN }),
        refusal(RangeError, `Unsupported value: value${shown} is NaN, which JSON doesn't have.`),
      )
    })
  }
})
