/** Signals that end a worker. */

const SIGNALS = ['SIGTERM', 'SIGINT'] as const

/** Call something at each of these signals; return what takes that back. */
export function onSignals(call: () => void): () => void {
  for (const signal of SIGNALS) process.on(signal, call)
  return () => {
    for (const signal of SIGNALS) process.off(signal, call)
  }
}
