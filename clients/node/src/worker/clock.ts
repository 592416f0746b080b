/** Time as a worker counts it: monotonic, so that a clock that is set back prolongs no lease. */

/** Longest delay in ms that a timer of Node takes; a longer one would fire at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1

/** Return the ms since some moment in the past. */
export function now(): number {
  return performance.now()
}

/** Call something after so many ms, however many; return what takes it back. */
export function after(ms: number, call: () => void): () => void {
  const at = now() + ms
  let timer: NodeJS.Timeout
  // Node's timers may also fire a little early.
  const look = () => (now() >= at ? call() : arm())
  const arm = () => {
    timer = setTimeout(look, Math.min(Math.max(at - now(), 1), LONGEST_TIMER_MS))
  }
  arm()
  return () => clearTimeout(timer)
}

/** Let the event loop turn once: what comes to its end meanwhile is dealt with together. */
export function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

/** A wait that others may end; a bell that rang before it ends it at once. */
export class Bell {
  #hasRung = false
  #wake: (() => void) | undefined

  ring(): void {
    this.#hasRung = true
    this.#wake?.()
  }

  /** Wait until it rings, so many ms at most. */
  async wait(ms: number): Promise<void> {
    if (!this.#hasRung && ms > 0) await this.#rings(ms)
    this.#hasRung = false
  }

  async #rings(ms: number): Promise<void> {
    let forget = () => {}
    await new Promise<void>((resolve) => {
      this.#wake = resolve
      if (ms !== Infinity) forget = after(ms, resolve)
    })
    forget()
    this.#wake = undefined
  }
}
