// Restarts a daemon that ends unexpectedly. Knows no daemon.
import type { Say } from '../ground/processes.ts'

const pollMs = 300

/** Runs until it is stopped, and prints each restart. A failed start is printed once and tried again. */
export function watchOver(
  name: string,
  runs: () => boolean,
  start: () => Promise<unknown>,
  say: Say,
): () => Promise<void> {
  let stopped = false
  let pause = Promise.withResolvers<void>()
  const watching = (async () => {
    let printed = false
    while (!stopped) {
      pause = Promise.withResolvers<void>()
      const timer = setTimeout(pause.resolve, pollMs)
      await pause.promise
      clearTimeout(timer)
      if (stopped || runs()) continue
      say(`${name} ended unexpectedly; restarting it`)
      const failure = await start().then(
        () => undefined,
        (error: Error) => error,
      )
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
