import assert from 'node:assert/strict'
import { test } from 'node:test'

import { DEFAULT_BACKOFF, Envelope, headLines, parseTask } from '../dist/envelope.js'
import { UnknownVersion, UnreadableRecord } from '../dist/errors.js'
import { Float } from '../dist/json.js'
import { RetryPolicy } from '../dist/retry.js'

const written = (fields) => new Envelope({ name: 't', ...fields }).toBytes().toString()
const read = (text, exact) => Envelope.fromBytes(Buffer.from(text), exact)
const unreadable = (message) => ({ name: 'UnreadableRecord', message })

test('what is at its default is left out', () => {
  const fields = {
    args: [],
    kwargs: {},
    runAfter: null,
    maxAttempts: 3,
    backoff: new RetryPolicy({ base: new Float(1) }),
    timeoutMs: null,
    resultTtlMs: 86_400_000,
    atomic: null,
    meta: new Map(),
  }
  assert.equal(written(fields), '{"v":1,"name":"t"}')
  assert.deepEqual(read(written({})), new Envelope({ name: 't', ...fields, backoff: DEFAULT_BACKOFF, meta: {} }))
})

test('what is undefined is at its default', () => {
  assert.equal(
    written({ args: undefined, runAfter: undefined, maxAttempts: undefined, backoff: undefined, meta: undefined }),
    '{"v":1,"name":"t"}',
  )
})

test('numbers stay in the spelling in which they were given', () => {
  const policy = new RetryPolicy({ base: new Float(2), factor: 1.5, cap: 10n, jitter: 'full' })
  const text = written({ args: [1, new Float(1), 2n ** 64n], backoff: policy })
  assert.equal(
    text,
    '{"v":1,"name":"t","args":[1,1.0,18446744073709551616],' +
      '"backoff":{"base":2.0,"factor":1.5,"cap":10,"jitter":"full"}}',
  )
  assert.equal(read(text, true).toBytes().toString(), text)
})

test('arguments that cannot travel are refused with the name of the task and their place', () => {
  const reason = 'holds a lone surrogate, which is no text.'
  assert.throws(() => written({ args: [['\ud800']] }), {
    name: 'RangeError',
    message: `Unsupported value: t: args[0][0] ${reason}`,
  })
  assert.throws(() => written({ kwargs: { a: '\ud800' } }), {
    name: 'RangeError',
    message: `Unsupported value: t: kwargs['a'] ${reason}`,
  })
  const hint = "Unsupported type: t: args[0] is a Date, which JSON can't carry: pass its toISOString()."
  assert.throws(() => written({ args: [new Date()] }), { name: 'TypeError', message: hint })
})

test('an envelope that is too large is refused with its size', () => {
  const envelope = new Envelope({ name: 't', args: ['é'.repeat(10)] })
  const size = Buffer.byteLength('{"v":1,"name":"t","args":[""]}') + 20
  assert.equal(envelope.toBytes(size).length, size)
  const message =
    `t: the arguments take ${size} bytes with all that goes along, and max_payload_bytes is ${size - 1}. ` +
    'Store them elsewhere and pass a reference.'
  assert.throws(() => envelope.toBytes(size - 1), { name: 'RangeError', message })
})

test('arguments are plain values, unless they are wanted exactly', () => {
  const text = '{"name":"t","args":[1.0,9007199254740993],"kwargs":{"b":1e0,"1":2},"max_attempts":7}'
  const plain = read(text)
  assert.deepEqual([plain.args, plain.kwargs, plain.maxAttempts], [[1, 9007199254740993n], { 1: 2, b: 1 }, 7])
  const exact = read(text, true)
  assert.deepEqual(
    [exact.args[0], exact.kwargs],
    [
      new Float(1),
      new Map([
        ['b', new Float(1)],
        ['1', 2],
      ]),
    ],
  )
})

const WRONG = [
  ['"max_attempts":1.0', "The envelope's max_attempts is 1.0."],
  ['"max_attempts":1.00000000000000000001', "The envelope's max_attempts is 1.0."],
  ['"max_attempts":0', "The envelope's max_attempts is 0."],
  ['"max_attempts":-0', "The envelope's max_attempts is 0."],
  ['"run_after" : 1e3', "The envelope's run_after is 1000.0."],
  ['"timeout_ms":true', "The envelope's timeout_ms is True."],
  ['"result_ttl_ms":-12345678901234567890', "The envelope's result_ttl_ms is -12345678901234567890."],
  ['"args":{"a":[null,"it\'s",1.5]}', `The envelope's args is {'a': [None, "it's", 1.5]}.`],
  [`"atomic":[${'"😀",'.repeat(40)}0]`, `The envelope's atomic is [${"'😀', ".repeat(20).slice(0, -1)}.`],
  [
    '"args":' + '{"a":'.repeat(300) + '1' + '}'.repeat(300),
    `The envelope's args is ${"{'a': ".repeat(17).slice(0, 100)}.`,
  ],
  ['"kwargs":[1]', "The envelope's kwargs is [1]."],
  ['"meta":"x"', "The envelope's meta is 'x'."],
  [
    '"backoff":{"base":-1}',
    "The envelope's backoff can't be read: backoff: base must be a number from 0 to 3155760000, not -1.",
  ],
  [
    '"backoff":{"steps":1}',
    "The envelope's backoff can't be read: backoff has no key 'steps'; it takes base, factor, cap, jitter.",
  ],
  ['"name":""', 'The envelope has no name.'],
]
for (const [field, message] of WRONG) {
  for (const exact of [false, true]) {
    test(`unreadable, exact or not (${exact}): ${message.slice(0, 100)}`, () => {
      assert.throws(() => read(`{"name":"t",${field}}`, exact), unreadable(message))
    })
  }
}

test('what is no object is unreadable', () => {
  for (const text of ['[]', '"t"', '1.0', 'null', '12345678901234567890'])
    assert.throws(() => read(text), unreadable('The envelope is no JSON object.'))
  assert.throws(() => read(''), unreadable('The envelope is no JSON: Expecting value: line 1 column 1 (char 0)'))
})

test('no field is taken from a prototype', () => {
  assert.throws(() => read('{"__proto__":{"name":"t"}}'), unreadable('The envelope has no name.'))
  assert.equal(read('{"name":"t","__proto__":{"max_attempts":9,"v":2}}').maxAttempts, 3)
})

test('fields are read among keys that JavaScript would move', () => {
  assert.equal(read('{"name":"t","2":0,"1":0,"max_attempts":9}', true).maxAttempts, 9)
})

const VERSIONS = [
  ['2', '2'],
  ['null', 'None'],
  ['"1"', "'1'"],
  ['[1]', '[1]'],
  ['{"toString":1}', "{'toString': 1}"],
  ['2.0', '2.0'],
]
for (const [version, shown] of VERSIONS) {
  test(`version ${version} is unknown, whatever the rest`, () => {
    const message = `The envelope has version ${shown}; this release reads 1.`
    assert.throws(
      () => read(`{"v":${version},"name":7}`),
      (error) => error instanceof UnknownVersion && error.message === message,
    )
  })
}

test('a version is compared as in Python', () => {
  for (const version of ['1', '1.0', 'true']) assert.equal(read(`{"v":${version},"name":"t"}`).name, 't')
})

test('integers beyond what a number holds are cut to it', () => {
  const large = '99999999999999999999'
  const text = `{"name":"t","run_after":-${large},"max_attempts":${large},"timeout_ms":${large}}`
  const { runAfter, maxAttempts, timeoutMs } = read(text)
  assert.deepEqual([runAfter, maxAttempts, timeoutMs], [Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER, 1e13])
})

test('a head is written with its key and the database of its row', () => {
  assert.equal(headLines(null, 5), '')
  assert.equal(headLines('a b', 5, 'other'), 'key 5 a b\nrecord other\n')
})

test('numbers of a head are read as in Python, and the last line of a name counts', () => {
  const [head, rest] = parseTask(Buffer.from('+1_000 -5 a b\nkey 1 x\nkey 2 y\n\n{}'))
  assert.deepEqual(head, { enqueuedAt: 1000, priority: -5, queue: 'a b', key: 'y', keyTtlMs: 2, recordAlias: null })
  assert.equal(rest.toString(), '{}')
})

test('a head that is no UTF-8 is unreadable, and an envelope may be', () => {
  const bytes = Buffer.concat([Buffer.from('1 0 q'), Buffer.from([0xff]), Buffer.from('\n\n{}')])
  assert.deepEqual(parseTask(bytes, 'q')[1], bytes)
  const [head, envelope] = parseTask(Buffer.from('1 0 q\n\n\xff', 'latin1'))
  assert.deepEqual([head.queue, envelope], ['q', Buffer.from([0xff])])
  assert.throws(() => Envelope.fromBytes(envelope), UnreadableRecord)
})
