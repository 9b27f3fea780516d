// Watches over what is not a process of our own kind: a daemon that ends by itself is started again.
import type { Say } from '../ground/processes.ts'

const lookEveryMs = 300

/** Looks until it is stopped; what it starts again is said. A failure to start is said once, and tried again. */
export function watchOver(
  name: string,
  runs: () => boolean,
  start: () => Promise<unknown>,
  say: Say,
): () => Promise<void> {
  let stopped = false
  let pause = Promise.withResolvers<void>()
  const watching = (async () => {
    let complained = false
    while (!stopped) {
      pause = Promise.withResolvers<void>()
      const timer = setTimeout(pause.resolve, lookEveryMs)
      await pause.promise
      clearTimeout(timer)
      if (stopped || runs()) continue
      say(`${name} ended by itself; it is started again.`)
      const failure = await start().then(
        () => undefined,
        (error: Error) => error,
      )
      if (failure && !complained) say(`${name} did not start: ${failure.message}`)
      complained = failure !== undefined
    }
  })()
  return async () => {
    stopped = true
    pause.resolve()
    await watching
  }
}
