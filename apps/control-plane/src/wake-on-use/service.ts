// Wakes the desktop that a call has found asleep, if the desktop or the call allows that. Any number of calls wait for one wake.
import { Refusal, refuse, type WokeJson } from '@dormouse/contract'
import type { Desktops } from '../desktops/service.ts'
import { isWakeable } from '../desktops/states.ts'
import type { DesktopRow } from '../desktops/store.ts'
import type { Awaken, Use } from '../guest/awaken.ts'
import { isSettled, type OperationRow } from '../operations/store.ts'
import { requireRight } from '../principals/rights.ts'
import { ensured, type WantedWakes } from './wanted.ts'

export interface WakesOnUseOptions {
  desktops: Desktops
  wanted: Pick<WantedWakes, 'want'>
}

/** After a wake the desktop may be asleep again before the call comes through. */
const mostWakes = 2

export class WakesOnUse {
  readonly #options: WakesOnUseOptions
  /** Requests for wakes that are being accepted, by desktop: calls that come meanwhile share one. */
  readonly #beginning = new Map<string, Promise<OperationRow>>()

  constructor(options: WakesOnUseOptions) {
    this.#options = options
  }

  /** For one call: wakes its desktop, a few times at most. Refuses if the call asks for that without the right to it. */
  awakenFor(use: Use): Awaken {
    if (use.wish === 'allow') requireRight(use.caller, 'power')
    let [wakes, waitedMs] = [0, 0]
    return async (error) => {
      if (!isAsleep(error) || use.hasAnswered() || wakes++ >= mostWakes) return false
      const began = performance.now()
      const desktop = await this.#options.desktops.get(use.caller, use.desktopId)
      if (!mayWake(use, desktop)) return false
      const path = await this.#wake(use, desktop)
      if (path === undefined) return false
      if (path === 'awake') return true
      waitedMs += performance.now() - began
      use.woke({ path, ms: Math.round(waitedMs) })
      return true
    }
  }

  /** How it woke; `awake` if this call had not to wait; undefined if it cannot wake as things are. */
  async #wake(use: Use, desktop: DesktopRow): Promise<WokeJson['path'] | 'awake' | undefined> {
    const { desktops } = this.#options
    const operation = await this.#operationFor(use, desktop)
    if (!operation) return undefined
    if (isSettled(operation) && desktop.state === 'awake') return 'awake'
    const settled = await desktops.settled(operation, use.gone())
    if (!isSettled(settled)) refuse('guest_unavailable', 'the desktop is still waking; repeat the request')
    if (settled.state === 'failed') {
      const { id: operation_id, error, errorCode } = settled
      refuse('operation_failed', error ?? undefined, { operation_id, cause_code: errorCode ?? undefined })
    }
    return settled.result?.path ?? null
  }

  /** Joins the wake in progress. Otherwise one begins, by the leader. */
  async #operationFor(use: Use, { id, state }: DesktopRow): Promise<OperationRow | undefined> {
    const inProgress = state === 'waking' ? await this.#options.desktops.wakeInProgress(id) : undefined
    if (inProgress) return inProgress
    const beginning = this.#beginning.get(id) ?? this.#begin(use)
    this.#beginning.set(id, beginning)
    try {
      return await beginning
    } catch (error) {
      // Another request of the customer comes first, such as a hibernation that waits behind a move.
      if (error instanceof Refusal && error.code === 'wrong_state') return undefined
      throw error
    } finally {
      if (this.#beginning.get(id) === beginning) this.#beginning.delete(id)
    }
  }

  async #begin(use: Use): Promise<OperationRow> {
    const { desktops, wanted } = this.#options
    try {
      return (await desktops.request(use.caller, use.desktopId, 'wake', ensured(use.requestId))).operation
    } catch (error) {
      if (!(error instanceof Refusal) || error.code !== 'not_leader') throw error
      return wanted.want(use)
    }
  }
}

/** The call has not begun in the guest. */
const isAsleep = (error: unknown): boolean =>
  error instanceof Refusal && (error.code === 'not_awake' || error.code === 'guest_suspended')

/** Whether this call of this caller wakes this desktop. Without the right to wake it, the desktop stays asleep. */
const mayWake = ({ caller, wish, class: use }: Use, { wakeOn, state }: DesktopRow): boolean =>
  isWakeable(state) &&
  (caller.can?.includes('power') ?? true) &&
  (wish === 'allow' || (wish === undefined && wakeOn.includes(use)))
