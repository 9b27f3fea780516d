// One run of `npm start`: its options, its data folder, what it prints, and what it must stop.
import type { Say } from '../testbed/processes.ts'
import { type Instance, openInstance } from './instance.ts'
import type { StartOptions } from './options.ts'

export interface Run {
  options: StartOptions
  instance: Instance
  say: Say
  /** Prints a finished step with the time since the start. */
  step: Say
  /** Registers what must be stopped. What is registered last stops first; what is registered after `stopAll` stops at once. */
  onStop(name: string, stop: () => Promise<void>): void
  /** Rejects when the run cannot go on. */
  failed: Promise<never>
  fail(why: string): void
  /** Stops everything. A part that fails to stop is named, and the others still stop. */
  stopAll(): Promise<void>
}

/** Takes the data folder for this run. Throws if another run has it. */
export function openRun(options: StartOptions): Run {
  const began = performance.now()
  const say = (line: string) => console.log(line)
  const step = (line: string) => say(`[${((performance.now() - began) / 1_000).toFixed(1).padStart(5)} s] ${line}`)
  const stops: { name: string; stop: () => Promise<void> }[] = []
  let stopped = false
  const onStop = (name: string, stop: () => Promise<void>) => {
    stops.push({ name, stop })
    if (stopped) void stopEach()
  }
  const stopEach = async () => {
    for (let last = stops.pop(); last; last = stops.pop()) {
      const { name, stop } = last
      await stop().catch((error: Error) => say(`${name} failed to stop: ${error.message}`))
    }
  }
  const stopAll = async () => {
    const started = stops.length > 1 // more than the data folder
    stopped = true
    await stopEach()
    if (started) step('everything is stopped')
  }
  const { promise: failed, reject } = Promise.withResolvers<never>()
  failed.catch(() => undefined)
  const fail = (why: string) => reject(new Error(why))
  const instance = openInstance(options.dataDir)
  onStop('the data folder', async () => instance.release())
  return { options, instance, say, step, onStop, failed, fail, stopAll }
}
