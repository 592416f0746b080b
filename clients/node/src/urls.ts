/** What a Redis URL says. No message here shows the URL, for there may be a password in it. */
import { readFileSync } from 'node:fs'
import type { ConnectionOptions } from 'node:tls'

import { ConfigurationError } from './errors.js'

/** Where Redis is, and how to log in there. */
export interface Address {
  host: string
  port: number
  /** Of a socket; empty where it is reached over the network. */
  path: string
  tls: ConnectionOptions | null
  database: number
  username: string
  password: string
}

const ELSEWHERE = ['sentinel', 'redis+cluster']
const SCHEMES = ['redis', 'rediss', 'unix']
const HOST = /^(?:\[([0-9A-Fa-f:.%]+)\]|([^\[\]:@/,\s]+))?(?::(\d{1,5}))?$/
const URL_PARTS = /^([a-z+]+):\/\/([^/?#]*)([^?#]*)(?:\?([^#]*))?$/
/** What may stand behind the `?`, as for Python; those that have no meaning here are read over. */
const OPTIONS = [
  'db', 'username', 'password', 'client_name', 'health_check_interval', 'max_connections', 'socket_keepalive',
]
const TLS_OPTIONS = [
  'ssl_ca_certs', 'ssl_ca_path', 'ssl_certfile', 'ssl_keyfile', 'ssl_password', 'ssl_cert_reqs', 'ssl_check_hostname',
]

/** Return what a URL says, or throw `ConfigurationError` that tells what is wrong with it. */
export function parseUrl(url: unknown): Address {
  if (typeof url !== 'string') throw new ConfigurationError(`The Redis URL must be a string, not ${typeof url}.`)
  const [scheme = ''] = url.split('://', 1)
  if (ELSEWHERE.includes(scheme)) {
    throw new ConfigurationError(`The Redis URL has the scheme ${scheme}://, which this client doesn't know yet.`)
  }
  if (!url.includes('://') || !SCHEMES.includes(scheme)) {
    const known = SCHEMES.map((one) => `${one}://`).join(', ')
    throw new ConfigurationError(`The Redis URL must start with one of ${known}.`)
  }
  const parts = URL_PARTS.exec(url)
  if (!parts) throw unreadable("it has no part behind a '#'; in a password, write %23")
  const [, , authority = '', path = '', query = ''] = parts
  const at = authority.lastIndexOf('@')
  const options = readOptions(scheme, query)
  return {
    ...(scheme === 'unix' ? socket(authority.slice(at + 1), path) : node(authority.slice(at + 1))),
    ...login(authority.slice(0, Math.max(at, 0)), options),
    tls: scheme === 'rediss' ? tlsOptions(options) : null,
    database: database(options.get('db') ?? (scheme === 'unix' ? '' : path.replace(/^\/|\/$/g, ''))),
  }
}

function unreadable(why: string): ConfigurationError {
  return new ConfigurationError(`The Redis URL can't be read: ${why}.`)
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw unreadable('a % in it stands for nothing; in a password, write %25')
  }
}

function readOptions(scheme: string, query: string): Map<string, string> {
  const known = scheme === 'rediss' ? [...OPTIONS, ...TLS_OPTIONS] : OPTIONS
  const options = new Map<string, string>()
  for (const pair of query.split('&').filter(Boolean)) {
    const equals = pair.indexOf('=')
    const name = pair.slice(0, Math.max(equals, 0))
    // Before an @ it may be the end of a password, which isn't shown.
    if (equals < 1 || (!known.includes(name) && query.includes('@'))) {
      throw unreadable("what follows its '?' isn't name=value; in a password, write %3F")
    }
    if (!known.includes(name)) throw unreadable(`it can't set '${name}'; it takes ${known.toSorted().join(', ')}`)
    options.set(name, decoded(pair.slice(equals + 1).replaceAll('+', ' ')))
  }
  return options
}

function login(text: string, options: Map<string, string>): Pick<Address, 'username' | 'password'> {
  const colon = text.indexOf(':')
  const username = colon < 0 ? text : text.slice(0, colon)
  const password = colon < 0 ? '' : text.slice(colon + 1)
  return {
    username: options.get('username') ?? decoded(username),
    password: options.get('password') ?? decoded(password),
  }
}

function node(text: string): Pick<Address, 'host' | 'port' | 'path'> {
  const match = HOST.exec(text)
  if (!match || Number(match[3] ?? 1) > 65535) {
    throw unreadable('its host is not host:port (in a password, write : / ? # @ as %3A %2F %3F %23 %40)')
  }
  return { host: match[1] ?? decoded(match[2] ?? 'localhost'), port: Number(match[3] ?? 6379), path: '' }
}

function socket(host: string, path: string): Pick<Address, 'host' | 'port' | 'path'> {
  if (host || /^\/*$/.test(path)) {
    throw unreadable('the path of the socket follows three slashes: unix:///run/redis.sock?db=0')
  }
  return { host: '', port: 0, path: decoded(path) }
}

function database(text: string): number {
  if (!/^\d{0,9}$/.test(text)) {
    throw unreadable('its path must be the number of a database (in a password, write / as %2F)')
  }
  return Number(text)
}

function tlsOptions(options: Map<string, string>): ConnectionOptions {
  const file = (name: string): Buffer | undefined => {
    const path = options.get(name)
    try {
      return path === undefined ? undefined : readFileSync(path)
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      throw new ConfigurationError(`The file that ${name} names can't be read: ${code}.`)
    }
  }
  if (options.has('ssl_ca_path')) {
    throw unreadable('ssl_ca_path has no counterpart in Node.js: give ssl_ca_certs, one file')
  }
  const asked = { ca: file('ssl_ca_certs'), cert: file('ssl_certfile'), key: file('ssl_keyfile') }
  const unchecked = options.get('ssl_cert_reqs') === 'none'
  const anyName = unchecked || /^(0|false|no)$/i.test(options.get('ssl_check_hostname') ?? '')
  return {
    ...Object.fromEntries(Object.entries(asked).filter(([, value]) => value)),
    passphrase: options.get('ssl_password'),
    rejectUnauthorized: !unchecked,
    ...(anyName ? { checkServerIdentity: () => undefined } : {}),
  }
}
