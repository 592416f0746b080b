/** How records go to Redis: in pages, some of which are on their way while the reply to one is read. */
import type { Argument, Connection, Reply } from './connection.js'
import { headLines } from './envelope.js'
import { TaskqError } from './errors.js'
import { type Enqueued, type NewRecord, type State, groups, integer, text } from './records.js'
import { run } from './scripts.js'

/** Records in one page, and bytes of their envelopes: few enough that Redis soon has something to do. */
const PAGE_RECORDS = 250
const PAGE_BYTES = 2 ** 20
/** Pages that may be on their way at once. */
const AHEAD = 4

/** What became of the records of a page, or why that isn't known. */
export type Page = Enqueued[] | TaskqError

/** Yield what became of each page; after an error no more are sent, but some may be on their way. */
export async function* enqueue(connection: Connection, key: string, records: NewRecord[]): AsyncGenerator<Page> {
  const underway: Promise<Page>[] = []
  let failed = false
  for (const page of batches(records, (record) => record.envelope.length, PAGE_RECORDS, PAGE_BYTES)) {
    if (underway.length === AHEAD) {
      const outcome = await underway.shift()!
      failed = outcome instanceof TaskqError
      yield outcome
      if (failed) break
    }
    underway.push(send(connection, key, page))
  }
  for (const outcome of underway) yield await outcome
}

/** Yield items in their order, at most so many and of at most this size at once; a larger one comes alone. */
export function* batches<T>(items: Iterable<T>, sizeOf: (item: T) => number, most: number, mostSize: number) {
  let batch: T[] = []
  let size = 0
  for (const item of items) {
    const length = sizeOf(item)
    if (batch.length > 0 && (batch.length >= most || size + length > mostSize)) {
      yield batch
      batch = []
      size = 0
    }
    batch.push(item)
    size += length
  }
  if (batch.length > 0) yield batch
}

async function send(connection: Connection, key: string, page: NewRecord[]): Promise<Page> {
  try {
    const fits = (reply: Reply[]) => reply.length === 4 * page.length
    const [reply] = await run(connection, key, [{ script: 'enqueue', arguments: page.flatMap(argumentsOf), fits }])
    return groups(reply as Reply[], 4).map(([word, id, state, at]) => ({
      word: text(word) as Enqueued['word'],
      id: text(id),
      state: text(state) as State,
      enqueuedAt: integer(at),
    }))
  } catch (error) {
    if (error instanceof TaskqError) return error
    throw error
  }
}

function argumentsOf(record: NewRecord): Argument[] {
  const { id, queue, priority, delayMs, atMs, key, keyTtlMs, envelope } = record
  return [id, queue, priority, delayMs, atMs, headLines(key, keyTtlMs, null), envelope]
}
