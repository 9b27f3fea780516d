// What ends a run: signals, a closed terminal, or the end of the npm that started it. Knows no run.

export interface Interruptions {
  /** Aborts when the run is to end. */
  first: AbortSignal
  /** Aborts when whoever watches insists: nothing is saved any more. */
  second: AbortSignal
  /** Resolves when the run is to end. */
  promise: Promise<void>
}

const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
/** A Ctrl-C reaches us from the terminal, and once more from npm: what follows this soon is the same one. */
const sameMs = 1_000
const parentEveryMs = 500

/** From now on nothing of it ends this process. Only Ctrl-C insists: what else is repeated is a supervisor, not a person. */
export function interruptions(): Interruptions {
  const first = new AbortController()
  const second = new AbortController()
  const { promise, resolve } = Promise.withResolvers<void>()
  let firstAt = 0
  const onSignal = (name?: NodeJS.Signals) => {
    if (!first.signal.aborted) firstAt = performance.now()
    else if (name === 'SIGINT' && performance.now() - firstAt > sameMs) second.abort(new Error('skipped'))
    first.abort(new Error('interrupted'))
    resolve()
  }
  for (const name of signals) process.on(name, onSignal)
  // The terminal may be gone, and what is saved must not depend on who reads about it.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined)
  if (process.env.npm_lifecycle_event) watchParent(onSignal)
  return { first: first.signal, second: second.signal, promise }
}

/** npm passes on SIGINT and SIGTERM. Whatever else ends it leaves us without a parent. */
function watchParent(ended: () => void): void {
  const parent = process.ppid
  const timer = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(timer)
    ended()
  }, parentEveryMs)
  timer.unref()
}
