import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { createContext, runInContext } from 'node:vm'

import { Float, parse, stringify } from '../dist/json.js'
import { refusal } from './json.js'
import { draws } from './random.js'

describe('writing', () => {
  const WRITTEN = [
    [9007199254740991, '9007199254740991'],
    [-9007199254740991, '-9007199254740991'],
    [9007199254740992, '9007199254740992.0'],
    [9007199254740993n, '9007199254740993'],
    [5n, '5'],
    [0, '0'],
    [-0, '-0.0'],
    [new Float(0), '0.0'],
    [new Float(-1), '-1.0'],
    [new Float(0.5), '0.5'],
    [1e15, '1000000000000000'],
    [new Float(1e15), '1000000000000000.0'],
    [1e16, '1e+16'],
    [1e21, '1e+21'],
    [1e22, '1e+22'],
    [0.0001, '0.0001'],
    [0.00001, '1e-05'],
    [-1.5e-7, '-1.5e-07'],
    [5e-324, '5e-324'],
    [1.7976931348623157e308, '1.7976931348623157e+308'],
    ['"\\/\b\f\n\r\t\v\0\x1f\x7f', '"\\"\\\\/\\b\\f\\n\\r\\t\\u000b\\u0000\\u001f\x7f"'],
    ['é\u2028\ufeff😀', '"é\u2028\ufeff😀"'],
    [{ b: 1, a: [], ['__proto__']: {} }, '{"b":1,"a":[],"__proto__":{}}'],
    [Object.assign(Object.create(null), { a: null }), '{"a":null}'],
    [
      new Map([
        ['b', 1],
        ['1', new Map()],
      ]),
      '{"b":1,"1":{}}',
    ],
    [runInContext('({ a: [1] })', createContext()), '{"a":[1]}'],
  ]
  for (const [value, text] of WRITTEN) {
    test(`writes ${text} as Python does`, () => assert.equal(stringify(value), text))
  }

  test('takes an accessor for the value that it gives', () => {
    assert.equal(
      stringify({
        get a() {
          return 1
        },
      }),
      '{"a":1}',
    )
  })

  test('leaves out what JavaScript does not enumerate', () => {
    assert.equal(stringify(Object.defineProperty({}, 'hidden', { value: 1 })), '{}')
  })

  test('never calls toJSON', () => {
    assert.throws(
      () => stringify({ toJSON: () => 1 }),
      refusal(TypeError, "Unsupported type: value['toJSON'] is a function, which JSON can't carry."),
    )
  })
})

describe('reading', () => {
  test('never rounds an integer', () => {
    const text = '[9007199254740991,9007199254740992,-9007199254740993,12345678901234567890]'
    assert.deepEqual(parse(text), [9007199254740991, 9007199254740992n, -9007199254740993n, 12345678901234567890n])
  })

  test('gives plain numbers and objects, unless asked to be exact', () => {
    assert.deepEqual(parse('{"b":1.0,"1":1e2,"c":0.5}'), { 1: 100, b: 1, c: 0.5 })
    const exact = parse('{"b":1.0,"1":1e2,"c":0.5}', true)
    assert.deepEqual(
      exact,
      new Map([
        ['b', new Float(1)],
        ['1', new Float(100)],
        ['c', 0.5],
      ]),
    )
  })

  test('makes a Map only of what JavaScript would bring into another order', () => {
    for (const text of [
      '{"1":0,"2":0,"b":0}',
      '{"7":0}',
      '{"b":0,"01":0,"-1":0,"4294967295":0}',
      '{"1":0,"b":0,"1":2}',
    ]) {
      assert.equal(Object.getPrototypeOf(parse(text, true)), Object.prototype, text)
    }
    for (const text of ['{"2":0,"1":0}', '{"b":0,"1":0}', '{"b":0,"4294967294":0}', '{"b":0,"\\u0031":0}']) {
      assert.ok(parse(text, true) instanceof Map, text)
    }
  })

  test('keeps the sign of a float that is zero, and of no integer', () => {
    assert.deepEqual(
      parse('[-0.0,-0e0,-0,0.0]').map((zero) => Object.is(zero, -0)),
      [true, true, false, false],
    )
  })

  test('takes __proto__ for a key like any other', () => {
    for (const text of ['{"__proto__":{"a":1}}', '{"__proto__":{"a":1},"b":-0}']) {
      const value = parse(text)
      assert.deepEqual(Object.getOwnPropertyDescriptor(value, '__proto__').value, { a: 1 })
      assert.equal(value.a, undefined)
    }
  })

  test('keeps the first place and the last value of a key', () => {
    assert.equal(stringify(parse('{"a":1,"b":2,"a":-0}', true)), '{"a":0,"b":2}')
  })

  test('sees a float that is rounded to an integer', () => {
    for (const text of [
      '1.00000000000000000001',
      '0.99999999999999999999',
      '4503599627370497.4',
      '899999999999.00006',
      '8999999999.0000009',
      '8999999999.9999991',
    ]) {
      assert.ok(parse(text, true) instanceof Float, text)
    }
  })

  test('reads what is nested deeper than any stack', () => {
    for (const inner of ['', '-0', '"\\u0031":1.0']) {
      let value = parse(
        inner.includes(':')
          ? `${'['.repeat(1e5)}{${inner}}${']'.repeat(1e5)}`
          : '['.repeat(1e5) + inner + ']'.repeat(1e5),
        true,
      )
      let levels = 0
      for (; Array.isArray(value); value = value[0]) levels++
      assert.equal(levels, 1e5)
    }
  })

  test('says where a text is no JSON', () => {
    const REFUSED = [
      ['{"a":1,\n "é😀" 2}', "Expecting ':' delimiter: line 2 column 7 (char 14)"],
      ['[1 2]', "Expecting ',' delimiter: line 1 column 4 (char 3)"],
      ['[1,]', 'Expecting value: line 1 column 4 (char 3)'],
      ['{1:2}', 'Expecting property name enclosed in double quotes: line 1 column 2 (char 1)'],
      ['["a\nb"]', 'Invalid control character at: line 1 column 4 (char 3)'],
      ['["ab', 'Unterminated string starting at: line 1 column 2 (char 1)'],
      ['1 2', 'Extra data: line 1 column 3 (char 2)'],
      ['\ufeff1', 'Expecting value: line 1 column 1 (char 0)'],
    ]
    for (const [text, message] of REFUSED) assert.throws(() => parse(text), refusal(SyntaxError, message))
  })

  test('refuses what is no UTF-8, without a mark of the byte order', () => {
    for (const hex of ['22ff22', '22c08022', '22eda08022', '22f490808022']) {
      assert.throws(() => parse(Buffer.from(hex, 'hex')), refusal(SyntaxError, 'The bytes are no UTF-8'))
    }
    assert.throws(() => parse(Buffer.from('\ufeff[]')), SyntaxError)
  })
})

test('what is read exactly is written again as it was', () => {
  for (const value of draws(2000)) {
    const text = stringify(value)
    assert.equal(stringify(parse(Buffer.from(text), true)), text)
  }
})

test('what is read plainly is equal to what was written', () => {
  for (const value of draws(2000)) {
    const text = stringify(value)
    const [plain, exact] = [parse(text), parse(text, true)]
    assert.deepEqual(plain, plainOf(exact), text)
  }
})

/** What is read exactly, as it is read otherwise. */
function plainOf(value) {
  if (value instanceof Float) return value.valueOf()
  if (Array.isArray(value)) return value.map(plainOf)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    [...(value instanceof Map ? value : Object.entries(value))].map(([key, item]) => [key, plainOf(item)]),
  )
}
