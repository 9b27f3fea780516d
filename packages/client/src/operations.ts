// Waits for an operation to settle, with one timeout over all requests. Knows no route.
import type { OperationJson } from '@dormouse/contract'
import { startDeadline } from './deadline.ts'
import { OperationFailedError, TimeoutError } from './errors.ts'
import type { CallOptions, Http } from './http.ts'
import type { NamesOf } from './options.ts'

/** The service holds a waiting request for at most 120 s. */
export const waitCallTimeoutMs = 150_000
const settleTimeoutDefaultMs = 600_000
/** A wait survives a restart of the service: the pauses add up to about half a minute. */
const waitRetries = 7
const pauseStartMs = 250
const pauseMaxMs = 2000
/** A response that took as long was held by the service. */
const heldMs = 2000

export interface WaitOptions {
  signal?: AbortSignal
  /** Timeout of the whole wait; 10 minutes by default. The operation continues after it. */
  timeoutMs?: number
  /** Called with the operation at each response. */
  onProgress?: (operation: OperationJson) => void
  onResponse?: CallOptions['onResponse']
}

export interface SettleOptions extends WaitOptions {
  idempotencyKey?: string
}

export const waitNames: NamesOf<WaitOptions> = { signal: true, timeoutMs: true, onProgress: true, onResponse: true }
export const settleNames: NamesOf<SettleOptions> = { ...waitNames, idempotencyKey: true }

type Ask = (call: CallOptions & { wait?: boolean; idempotencyKey?: string }) => Promise<OperationJson>

/**
 * Requests once to get the operation, then again with the same key and `?wait=true` until it settles. The service
 * responds to such a repeat the moment that happens.
 */
export function settle(http: Http, ask: Ask, idempotencyKey: string, options: WaitOptions): Promise<OperationJson> {
  const keyed = { idempotencyKey, onResponse: options.onResponse }
  const waiting = { ...keyed, wait: true, timeoutMs: waitCallTimeoutMs, retries: http.retries ?? waitRetries }
  // The pause prevents a tight loop if a server does not hold waiting requests.
  const pauseBefore = (turn: number) => (turn > 1 ? pauseStartMs : 0)
  return untilSettled(http, options, pauseBefore, (turn, signal) => ask({ ...(turn ? waiting : keyed), signal }))
}

/** Requests once with \`ensure\`, then reads the operation until it settles: a repeat of the request would look again. */
export function settleEnsured(
  http: Http,
  ask: Ask,
  look: (id: string, call: CallOptions & { wait: boolean }) => Promise<OperationJson>,
  idempotencyKey: string,
  options: WaitOptions,
): Promise<OperationJson> {
  const call = { onResponse: options.onResponse }
  const waiting = { ...call, wait: true, timeoutMs: waitCallTimeoutMs, retries: http.retries ?? waitRetries }
  let begun: OperationJson | undefined
  return untilSettled(http, options, pauseAfterLook, async (_turn, signal) => {
    if (begun) return look(begun.id, { ...waiting, signal })
    begun = await ask({ ...call, idempotencyKey, signal })
    return begun
  })
}

/**
 * Reads the operation, then again with `?wait=true` until it settles. If the service does not hold the request, as one of an
 * earlier release, it is polled after growing pauses of at most 2 s.
 */
export function pollOperation(http: Http, look: Ask, options: WaitOptions): Promise<OperationJson> {
  const call = { onResponse: options.onResponse, retries: http.retries ?? waitRetries }
  const waiting = { ...call, wait: true, timeoutMs: waitCallTimeoutMs }
  return untilSettled(http, options, pauseAfterLook, (turn, signal) => look({ ...(turn ? waiting : call), signal }))
}

const pauseAfterLook = (turn: number, tookMs: number): number =>
  turn > 1 && tookMs < heldMs ? Math.min(pauseStartMs * 2 ** (turn - 2), pauseMaxMs) : 0

async function untilSettled(
  { clock }: Http,
  { timeoutMs = settleTimeoutDefaultMs, signal, onProgress }: WaitOptions,
  pauseBefore: (turn: number, tookMs: number) => number,
  ask: (turn: number, signal: AbortSignal) => Promise<OperationJson>,
): Promise<OperationJson> {
  let seen: OperationJson | undefined
  using deadline = startDeadline(timeoutMs, signal, () => notSettled(timeoutMs, seen))
  for (let turn = 0, tookMs = 0; !isSettled(seen); turn++) {
    const pauseMs = pauseBefore(turn, tookMs)
    if (pauseMs > 0) await clock.sleep(pauseMs, deadline.signal)
    const askedAt = clock.now()
    seen = await ask(turn, deadline.signal)
    tookMs = clock.now() - askedAt
    onProgress?.(seen)
  }
  if (seen.state === 'failed')
    throw new OperationFailedError(seen.error ?? `the ${seen.kind} failed`, { operation: seen })
  return seen
}

function isSettled(operation: OperationJson | undefined): operation is OperationJson {
  return operation?.settled_at != null || operation?.state === 'succeeded' || operation?.state === 'failed'
}

function notSettled(timeoutMs: number, seen: OperationJson | undefined): TimeoutError {
  const after = `within ${timeoutMs} ms`
  return seen
    ? new TimeoutError(`the ${seen.kind} did not settle ${after}; it continues, so wait for operation ${seen.id}`, {
        operation: seen,
      })
    : new TimeoutError(`no response ${after}; retry with the same idempotency key`)
}
