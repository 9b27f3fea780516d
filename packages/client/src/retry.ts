// The API's retry policy, as pure functions.
import { ConnectionError, type DormouseError } from './errors.ts'

export const retriesDefault = 3
const backoffStartMs = 250
export const retryAfterMaxMs = 30_000
const retryableStatuses = new Set([429, 503, 504])

/** Time and randomness, so that tests control both. */
export interface Clock {
  now(): number
  /** Resolves after that long; rejects with the signal's reason as soon as it is aborted. */
  sleep(ms: number, signal: AbortSignal): Promise<void>
  /** From 0 to below 1. */
  random(): number
}

/** The machine's own time and chance. */
export const systemClock: Clock = {
  now: () => Date.now(),
  random: () => Math.random(),
  sleep: (ms, signal) =>
    new Promise((resolve, reject) => {
      signal.throwIfAborted()
      const stop = () => {
        clearTimeout(timer)
        reject(signal.reason)
      }
      const timer = setTimeout(() => {
        signal.removeEventListener('abort', stop)
        resolve()
      }, ms)
      signal.addEventListener('abort', stop, { once: true })
    }),
}

/** Whether the same request can be sent again: a GET, or one with an idempotency key. */
export function isRepeatable(method: string, headers: Headers): boolean {
  return method === 'GET' || headers.has('idempotency-key')
}

/** Whether a later attempt may succeed: after no response, or 429, 503, 504. */
export function mayPass(failure: DormouseError): boolean {
  return failure instanceof ConnectionError || retryableStatuses.has(failure.status ?? 0)
}

/** How long to wait before the next attempt; `attempt` counts from 0. */
export function delayMs(attempt: number, failure: DormouseError, random: () => number): number {
  if (failure.retryAfterMs !== undefined) return Math.min(failure.retryAfterMs, retryAfterMaxMs)
  return random() * backoffStartMs * 2 ** attempt
}

/** Reads `Retry-After`, seconds or HTTP-date, as milliseconds from now; undefined if it is neither. */
export function parseRetryAfter(value: string | null, now: number): number | undefined {
  if (value === null) return undefined
  if (/^\s*\d+\s*$/.test(value)) return Number(value) * 1000
  // An HTTP-date begins with a day's name; Date.parse alone would also take "-5" or "2".
  if (!/^\s*(mon|tue|wed|thu|fri|sat|sun)/i.test(value)) return undefined
  const date = Date.parse(value)
  return Number.isNaN(date) ? undefined : Math.max(0, date - now)
}
