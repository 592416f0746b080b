/** What was thrown, made into text that can be stored, whatever its author did. */

import { inspect } from 'node:util'

import { Bury, Retry } from '../errors.js'
import type { AttemptError } from '../records.js'

/** Causes of causes that are shown. */
const MOST_CAUSES = 5
/** Where what calls a task is: the frames from there on say nothing about the task. */
const FOLDER = new URL('.', import.meta.url).href

/** Return what is recorded of something thrown: nothing of it is kept alive. Never throws. */
export function describe(thrown: unknown, reason = ''): AttemptError {
  return {
    error: attempted(() => kindOf(thrown), 'Error'),
    message: attempted(() => messageOf(thrown), "(it can't be shown)"),
    traceback: attempted(() => stackOf(thrown), "(its stack can't be shown)"),
    reason: attempted(() => String(reason), ''),
  }
}

function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? String(thrown.message) : inspect(thrown)
}

/** Return what a task asked for by throwing it; null for any other thing, also one that can't be looked at. */
export function signalOf(thrown: unknown): Bury | Retry | null {
  return attempted(() => (thrown instanceof Bury || thrown instanceof Retry ? thrown : null), null)
}

function attempted<T>(step: () => T, otherwise: T): T {
  try {
    return step()
  } catch {
    return otherwise
  }
}

function kindOf(thrown: unknown): string {
  if (typeof thrown !== 'object' || thrown === null) return typeof thrown
  return String(thrown.constructor?.name || (thrown as Error).name || 'Error')
}

/** Return the stack of an error, with those of its causes. */
function stackOf(thrown: unknown): string {
  const stacks: string[] = []
  for (let each = thrown; each instanceof Error && stacks.length < MOST_CAUSES; each = each.cause) {
    stacks.push(ofTask(String(each.stack ?? each)))
  }
  return stacks.join('\ncaused by ')
}

/** Return a stack without the frames of this package at its bottom. */
function ofTask(stack: string): string {
  const lines = stack.split('\n')
  const ours = lines.findIndex((line) => line.includes(FOLDER))
  return ours < 0 ? stack : lines.slice(0, ours).join('\n')
}
