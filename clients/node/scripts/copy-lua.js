// Copy the Lua files of the Python package here, or check (--check) that what is here is byte for byte the same.
import { copyFileSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync } from 'node:fs'

const from = new URL('../../../django_taskq/lua/', import.meta.url)
const to = new URL('../lua/', import.meta.url)
mkdirSync(to, { recursive: true })

const files = (folder) => readdirSync(folder).filter((name) => name.endsWith('.lua'))
const isSame = (name) =>
  [from, to].every((folder) => existsSync(new URL(name, folder))) &&
  readFileSync(new URL(name, from)).equals(readFileSync(new URL(name, to)))
const differing = () => [...new Set([...files(from), ...files(to)])].filter((name) => !isSame(name)).sort()

if (!process.argv.includes('--check')) {
  // Only what differs is touched: somebody may run what is here.
  for (const name of differing()) {
    if (existsSync(new URL(name, from))) copyFileSync(new URL(name, from), new URL(name, to))
    else rmSync(new URL(name, to))
  }
}

if (differing().length > 0) {
  console.error(`Not those of the Python package: ${differing().join(', ')}. Run: npm run build`)
  process.exit(1)
}
