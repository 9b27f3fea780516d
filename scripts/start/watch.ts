// Restarts a daemon that ends unexpectedly, with growing pauses. Knows no daemon.
import type { Say } from '../testbed/processes.ts'

export interface Watched {
  name: string
  runs(): boolean
  start(): Promise<unknown>
  say: Say
  /** Why there is nothing left to restart; undefined while there is. Then the watch ends and calls `giveUp`. */
  lost?(): string | undefined
  giveUp?(why: string): void
  /** How often to look, and the first pause before a restart. The pause doubles with each restart. */
  pollMs?: number
}

const longestPauseMs = 30_000
/** A daemon that ran this long was restarted well: the next pause is the first again. */
const steadyMs = 60_000

/** Watches until it is stopped, and prints each restart. A failed start is printed once and tried again. */
export function watchOver({ name, runs, start, say, lost, giveUp, pollMs = 300 }: Watched): () => Promise<void> {
  let stopped = false
  let pause = Promise.withResolvers<void>()
  const pauseFor = async (ms: number) => {
    pause = Promise.withResolvers<void>()
    const timer = setTimeout(pause.resolve, ms)
    if (!stopped) await pause.promise
    clearTimeout(timer)
  }
  const restart = async () => {
    say(`${name} ended unexpectedly; restarting it`)
    return start().then(
      () => undefined,
      (error: Error) => error,
    )
  }
  const watching = (async () => {
    let printed = false
    let pauseMs = pollMs
    let restartedAt = 0
    while (!stopped) {
      await pauseFor(pollMs)
      if (stopped) return
      const why = lost?.()
      if (why !== undefined) return giveUp?.(why)
      if (runs()) continue
      if (performance.now() - restartedAt > steadyMs) pauseMs = pollMs
      else await pauseFor(pauseMs)
      if (stopped) return
      const failure = await restart()
      restartedAt = performance.now()
      pauseMs = Math.min(longestPauseMs, pauseMs * 2)
      if (failure && !printed) say(`${name} failed to start: ${failure.message}`)
      printed = failure !== undefined
    }
  })()
  return async () => {
    stopped = true
    pause.resolve()
    await watching
  }
}
