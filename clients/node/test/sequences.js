// Runs the sequences of the golden vectors; docs/reference/protocol.md says what their steps mean.
import assert from 'node:assert/strict'

// Milliseconds by which `$now` may differ from the server's clock, and by which less may be left than it is about.
const NOW_TOLERANCE = 60_000
const ABOUT_TOLERANCE = 20_000
const VARIABLE = /\$([a-z]+)([+-]\d+)?/g

/** Compares what was expected with what there is; a variable is bound where it is first met. */
class Match {
  #redis
  #bound = new Map()

  constructor(redis) {
    this.#redis = redis
  }

  /** Return a text with the values of its variables. */
  async filled(text) {
    const values = new Map([...this.#bound, ['now', await this.#now()]])
    return text.replace(VARIABLE, (_, name, offset) => String(values.get(name) + Number(offset ?? 0)))
  }

  /** Throw where something is otherwise than expected. */
  async check(expected, actual, where) {
    if (Array.isArray(expected)) {
      assert.ok(Array.isArray(actual), `${where}: ${shown(actual)} is no list`)
      assert.equal(actual.length, expected.length, `${where}: ${shown(actual)}`)
      for (const [index, one] of expected.entries()) await this.check(one, actual[index], `${where}[${index}]`)
    } else if (typeof expected !== 'object') {
      await this.#checkText(String(expected), shown(actual), where)
    } else if ('about' in expected) {
      const number = Number(shown(actual))
      assert.ok(expected.about - ABOUT_TOLERANCE <= number && number <= expected.about, `${where}: ${number}`)
    } else if ('fields' in expected) {
      await this.checkFields(expected.fields, fieldsOf(actual), where)
    } else if ('error' in expected) {
      assert.ok(actual instanceof Error && actual.message.includes(expected.error), `${where}: ${shown(actual)}`)
    } else {
      assert.deepEqual(expected, { any: true }, where)
    }
  }

  /** Compare a hash, or the members and scores of a sorted set. */
  async checkFields(expected, actual, where) {
    assert.deepEqual([...actual.keys()].toSorted(), Object.keys(expected).toSorted(), where)
    for (const name of actual.keys()) await this.check(expected[name], actual.get(name), `${where}, ${name}`)
  }

  async #checkText(expected, actual, where) {
    const variables = [...expected.matchAll(VARIABLE)]
    const literals = expected.split(/\$[a-z]+(?:[+-]\d+)?/)
    const escaped = literals.map((literal) => literal.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))
    const found = new RegExp(`^${escaped.join('(-?\\d+)')}$`).exec(actual)
    assert.ok(found, `${where}: '${actual}' is not '${expected}'`)
    for (const [index, [, name, offset]] of variables.entries()) {
      const value = Number(found[index + 1]) - Number(offset ?? 0)
      const differs = `${where}: '${actual}' is not '${expected}'`
      if (name === 'now') {
        assert.ok(Math.abs(value - (await this.#now())) < NOW_TOLERANCE, `${differs} by the clock`)
      } else {
        if (!this.#bound.has(name)) this.#bound.set(name, value)
        assert.equal(value, this.#bound.get(name), differs)
      }
    }
  }

  async #now() {
    const [seconds, microseconds] = await this.#redis.time()
    return Number(seconds) * 1000 + Math.floor(Number(microseconds) / 1000)
  }
}

function shown(value) {
  if (value instanceof Buffer) return value.toString()
  return Array.isArray(value) ? `[${value.map(shown).join()}]` : String(value)
}

function fieldsOf(flat) {
  const fields = new Map()
  for (let index = 0; index < flat.length; index += 2) fields.set(shown(flat[index]), flat[index + 1])
  return fields
}

/** What a namespace holds, by the steps so far: each names what it changes, null takes away. */
class Expected {
  keys = new Map()
  ttls = new Map()

  change({ state = {}, ttl = {} }) {
    for (const [key, change] of Object.entries(state)) {
      const value = isFields(change) ? withoutNulls({ ...this.keys.get(key), ...change }) : change
      if (value === null || Object.keys(value).length === 0) this.keys.delete(key)
      else this.keys.set(key, value)
    }
    this.ttls = new Map(Object.entries(withoutNulls({ ...Object.fromEntries(this.ttls), ...ttl })))
  }
}

function isFields(value) {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function withoutNulls(fields) {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null))
}

/** Run the steps of one sequence in an empty namespace; `call` runs a script and resolves to its reply, or rejects. */
export async function runSequence(steps, redis, namespace, call) {
  const match = new Match(redis)
  const expected = new Expected()
  const filled = (parts) => Promise.all(parts.map((part) => match.filled(part)))
  for (const [index, step] of steps.entries()) {
    const where = `step ${index + 1}, ${step.script ?? 'redis'}`
    if (step.redis) {
      const [name, ...parts] = await filled(step.redis)
      await redis.call(name, ...parts.map((part) => part.replace('{ns}', `{${namespace}}`)))
    } else {
      const reply = await call(step.script, await filled(step.argv)).catch((error) => error)
      await match.check(step.reply, reply, `${where}: reply`)
    }
    expected.change(step)
    await checkState(expected, match, redis, namespace, where)
  }
}

async function checkState(expected, match, redis, namespace, where) {
  const prefix = `{${namespace}}:`
  const keys = (await redis.keys(`${prefix}*`)).map((key) => key.slice(prefix.length)).toSorted()
  assert.deepEqual(keys, [...expected.keys.keys()].toSorted(), where)
  for (const key of keys) {
    const at = `${where}: ${key}`
    const held = await read(redis, prefix + key)
    if (held instanceof Map) await match.checkFields(expected.keys.get(key), held, at)
    else await match.check(expected.keys.get(key), held, at)
    const ttl = expected.ttls.has(key) ? { about: expected.ttls.get(key) } : -1
    await match.check(ttl, await redis.pttl(prefix + key), `${at}: TTL`)
  }
}

/** Return what a key holds: a hash and a sorted set as a Map, a set as a sorted list. */
async function read(redis, key) {
  switch (await redis.type(key)) {
    case 'string':
      return redis.get(key)
    case 'hash':
      return new Map(Object.entries(await redis.hgetall(key)))
    case 'zset':
      return fieldsOf(await redis.zrange(key, 0, -1, 'WITHSCORES'))
    case 'list':
      return redis.lrange(key, 0, -1)
    default:
      return (await redis.smembers(key)).toSorted()
  }
}
