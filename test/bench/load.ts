// Many callers at once, each waiting for its answer before it asks again, for a limited time.
import { performance } from 'node:perf_hooks'
import { percentile } from './statistics.ts'

export interface Loaded {
  rate: number
  p50: number
  p99: number
  count: number
  tookMs: number
}

/** Runs `one` for each caller again and again. Rate per second and latencies in ms. */
export async function load(
  callers: number,
  seconds: number,
  one: (caller: number) => Promise<unknown>,
): Promise<Loaded> {
  const times: number[] = []
  const began = performance.now()
  const ends = began + seconds * 1_000
  const call = async (caller: number) => {
    for (let now = performance.now(); now < ends; ) {
      await one(caller)
      const after = performance.now()
      times.push(after - now)
      now = after
    }
  }
  await Promise.all(Array.from({ length: callers }, (_, caller) => call(caller)))
  const tookMs = performance.now() - began
  return {
    rate: (times.length * 1_000) / tookMs,
    p50: percentile(times, 0.5),
    p99: percentile(times, 0.99),
    count: times.length,
    tookMs,
  }
}
