import assert from 'node:assert/strict'
import { test } from 'node:test'

import { parseUrl } from '../dist/urls.js'

const PLAIN = { host: 'localhost', port: 6379, path: '', tls: null, database: 0, username: '', password: '' }

for (const [url, expected] of [
  ['redis://localhost:6379/0', {}],
  ['redis://', {}],
  ['redis://cache', { host: 'cache' }],
  ['redis://cache:7000/2/', { host: 'cache', port: 7000, database: 2 }],
  ['redis://cache/2?db=3', { host: 'cache', database: 3 }],
  ['redis://[::1]:7000', { host: '::1', port: 7000 }],
  ['redis://:se%2Fcret@cache', { host: 'cache', password: 'se/cret' }],
  ['redis://me:a:b@cache', { host: 'cache', username: 'me', password: 'a:b' }],
  ['redis://cache?username=me&password=x%20y', { host: 'cache', username: 'me', password: 'x y' }],
  ['redis://cache?client_name=web&max_connections=5&socket_keepalive=yes', { host: 'cache' }],
  ['unix:///run/my%20redis.sock?db=4', { host: '', port: 0, path: '/run/my redis.sock', database: 4 }],
  ['unix://me:pw@/run/redis.sock', { host: '', port: 0, path: '/run/redis.sock', username: 'me', password: 'pw' }],
]) {
  test(`${url} is read`, () => assert.deepEqual(parseUrl(url), { ...PLAIN, ...expected }))
}

const UNREADABLE = "The Redis URL can't be read: "
const NO_HOST = `${UNREADABLE}its host is not host:port (in a password, write : / ? # @ as %3A %2F %3F %23 %40).`
const NO_DATABASE = `${UNREADABLE}its path must be the number of a database (in a password, write / as %2F).`

for (const [url, message] of [
  [undefined, 'The Redis URL must be a string, not undefined.'],
  ['localhost:6379', 'The Redis URL must start with one of redis://, rediss://, unix://.'],
  ['http://secret@x', 'The Redis URL must start with one of redis://, rediss://, unix://.'],
  ['sentinel://secret@a:1/m', "The Redis URL has the scheme sentinel://, which this client doesn't know yet."],
  ['redis+cluster://secret@a:1', "The Redis URL has the scheme redis+cluster://, which this client doesn't know yet."],
  ['redis://:sec#ret@x', "The Redis URL can't be read: it has no part behind a '#'; in a password, write %23."],
  ['redis://:sec/ret@x', NO_HOST],
  ['redis://:secret@x/db', NO_DATABASE],
  ['redis://:secret@x:99999', NO_HOST],
  ['redis://:sec%ret@x', "The Redis URL can't be read: a % in it stands for nothing; in a password, write %25."],
  ['redis://:secret@x?socket_timeout=9', /: it can't set 'socket_timeout'; it takes client_name, db, /],
  ['redis://:secret@x?db', /: what follows its '\?' isn't name=value; in a password, write %3F.$/],
  ['redis://:a?secret=b@x', /: what follows its '\?' isn't name=value; in a password, write %3F.$/],
  ['redis://x?ssl_certfile=secret', /it can't set 'ssl_certfile'/],
  ['rediss://x?ssl_ca_certs=/no/secret', 'The file that ssl_ca_certs names can\'t be read: ENOENT.'],
  ['rediss://x?ssl_ca_path=/secret', /give ssl_ca_certs, one file/],
  ['unix://host/run/secret.sock', /three slashes/],
]) {
  test(`${url} is refused, without showing it`, () => {
    assert.throws(() => parseUrl(url), (error) => {
      assert.equal(error.name, 'ConfigurationError')
      if (message instanceof RegExp) assert.match(error.message, message)
      else assert.equal(error.message, message)
      assert.doesNotMatch(error.stack, /secret|sec.ret@/)
      return true
    })
  })
}

test('TLS checks the certificate and the name in it, unless the URL says otherwise', () => {
  const { tls } = parseUrl('rediss://x')
  assert.equal(tls.rejectUnauthorized, true)
  assert.equal('checkServerIdentity' in tls, false)
  assert.equal(parseUrl('rediss://x?ssl_cert_reqs=none').tls.rejectUnauthorized, false)
  const anyName = parseUrl('rediss://x?ssl_check_hostname=no').tls
  assert.equal(anyName.rejectUnauthorized, true)
  assert.equal(anyName.checkServerIdentity('a', {}), undefined)
})
