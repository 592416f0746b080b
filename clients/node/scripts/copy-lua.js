// Copy the Lua files of the Python package here, or check (--check) that what is here is byte for byte the same.
import { cpSync, readFileSync, readdirSync, rmSync } from 'node:fs'

const from = new URL('../../../django_taskq/lua/', import.meta.url)
const to = new URL('../lua/', import.meta.url)
const files = (folder) => readdirSync(folder).filter((name) => name.endsWith('.lua')).sort()

if (!process.argv.includes('--check')) {
  rmSync(to, { recursive: true, force: true })
  for (const name of files(from)) cpSync(new URL(name, from), new URL(name, to))
}

const wanted = files(from)
const differing = [...new Set([...wanted, ...files(to)])].filter(
  (name) => !wanted.includes(name) || !readFileSync(new URL(name, from)).equals(readFileSync(new URL(name, to))),
)
if (differing.length > 0) {
  console.error(`Not those of the Python package: ${differing.join(', ')}. Run: npm run build`)
  process.exit(1)
}
