// What reading an exec returns, and the retries over a lost connection, a busy service and a sleep. Knows no route.
import type { ExecStateJson, ExecStream } from '@dormouse/contract'
import { DormouseError, TimeoutError } from './errors.ts'
import type { CallOptions, Http } from './http.ts'
import { mayPass, retryAfterMaxMs } from './retry.ts'

/** The next bytes of an exec's output. */
export interface ExecOutput {
  bytes: Uint8Array<ArrayBuffer>
  /** The offset of the first byte; more than requested if bytes were dropped. */
  offset: number
  nextOffset: number
  state: ExecStateJson['state']
  /** Whether nothing follows. */
  isEnd: boolean
}

export interface FollowExecOptions {
  stream?: ExecStream
  /** Begin here: the `nextOffset` of an earlier piece. */
  offset?: number
  signal?: AbortSignal
  /** Whether the first request wakes a desktop that is asleep. Later ones never do. */
  wake?: CallOptions['wake']
}

const pause = { leastMs: 100, mostMs: 10_000 }

/** Retries what may pass for as long as it takes: the exec goes on meanwhile. Also a sleep passes. */
export async function patiently<T>(http: Http, work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
  for (let failures = 0; ; failures++) {
    try {
      return await work()
    } catch (error) {
      signal?.throwIfAborted()
      if (!(error instanceof DormouseError) || !passes(error)) throw error
      const atLeastMs = Math.min(error.retryAfterMs ?? 0, retryAfterMaxMs)
      const mostMs = Math.max(atLeastMs, Math.min(pause.mostMs, pause.leastMs * 2 ** failures))
      await http.clock.sleep(mostMs * (0.5 + http.clock.random() / 2), signal ?? new AbortController().signal)
    }
  }
}

const asleep = ['hibernating', 'hibernated', 'waking', 'awake']
const passes = (error: DormouseError): boolean =>
  mayPass(error) ||
  error instanceof TimeoutError ||
  error.code === 'guest_suspended' ||
  (error.code === 'not_awake' && asleep.includes(String(error.problem?.state ?? 'awake')))
