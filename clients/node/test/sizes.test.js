// The size of functions, as CONTRIBUTING.md has it for all that is written; tests/unit/test_size.py looks at files.
import assert from 'node:assert/strict'
import { readFileSync, readdirSync } from 'node:fs'
import test from 'node:test'
import ts from 'typescript'

const LINES = 40
const folder = new URL('../src/', import.meta.url)
const files = readdirSync(folder, { recursive: true }).filter((name) => name.endsWith('.ts'))

/** Find the functions of a file that are too long. */
function longFunctions(name) {
  const source = ts.createSourceFile(name, readFileSync(new URL(name, folder), 'utf8'), ts.ScriptTarget.Latest, true)
  const found = []
  const line = (position) => source.getLineAndCharacterOfPosition(position).line
  const visit = (node) => {
    if (ts.isFunctionLike(node) && line(node.getEnd()) - line(node.getStart()) + 1 >= LINES) {
      found.push(`${name}:${line(node.getStart()) + 1}`)
    }
    ts.forEachChild(node, visit)
  }
  visit(source)
  return found
}

test(`every function is shorter than ${LINES} lines`, () => {
  assert.ok(files.length > 10)
  assert.deepEqual(files.flatMap(longFunctions), [])
})
