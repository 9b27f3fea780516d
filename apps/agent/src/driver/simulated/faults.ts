// The failures that a simulated hypervisor can have on request, so that a failing test can be replayed by hand.
import { setTimeout as sleep } from 'node:timers/promises'
import { type DesktopId, type ExecCommand, Refusal, type RefusalCode, refusalCode } from '@dormouse/contract'
import type { Readiness } from '../../images/images.ts'
import type { GuestKeyboard } from '../driver.ts'

export const simulatedOperations = [
  'list',
  'startCold',
  'save',
  'restorePaused',
  'resume',
  'suspend',
  'setMark',
  'kill',
  'makeDisk',
  'fillDisk',
  'growDisk',
  'removeDisk',
  'ping',
  'setTime',
  'tell',
  'exec',
  'supervise',
  'writeFile',
  'readFile',
  'screen',
  'misfit',
  'leave',
  'sendMove',
  'enter',
  'finishMove',
  'isKept',
  'isAsleep',
  'wakeAsleep',
  'bootTemplate',
  'saveTemplate',
  'endTemplate',
  'copyTemplate',
  'plug',
  'adoptDisk',
] as const
export type SimulatedOperation = (typeof simulatedOperations)[number]

export interface FaultSettings {
  /** How long each operation takes. */
  latencyMs?: Partial<Record<SimulatedOperation, number>>
  /** `operation:code:times`, as from the environment. */
  fail?: string[]
  diskFull?: boolean
  guestsSilent?: boolean
}

export class SimulatedFaults {
  /** When the image of all guests counts a guest as ready. */
  readiness: Readiness | undefined
  /** What the image of all guests says of their keyboard. */
  keyboard: GuestKeyboard = { layout: 'us', clipboard: false }
  /** Whether the program for the clipboard runs in all guests. */
  clipboardConnected = true
  readonly latencyMs: Partial<Record<SimulatedOperation, number>>
  /** No disk or memory image can be written. */
  diskFull: boolean
  guestsSilent: boolean
  readonly silentGuests = new Set<DesktopId>()
  /** How often each operation was begun. */
  readonly counts: Partial<Record<SimulatedOperation, number>> = {}
  /** How much has come from files of all guests. */
  bytesRead = 0
  /** The last command that reached a guest. */
  lastExec: ExecCommand | undefined
  /** The whole hypervisor does not answer. */
  down = false
  readonly #failing = new Map<SimulatedOperation, { times: number; code: RefusalCode; detail: string }>()
  readonly #hanging = new Map<SimulatedOperation, PromiseWithResolvers<void>>()

  constructor(settings: FaultSettings = {}) {
    this.latencyMs = { ...settings.latencyMs }
    this.diskFull = settings.diskFull ?? false
    this.guestsSilent = settings.guestsSilent ?? false
    for (const text of settings.fail ?? []) this.#plan(text)
  }

  /** The next `times` calls of the operation fail with this refusal. */
  failNext(
    operation: SimulatedOperation,
    times = 1,
    code: RefusalCode = 'hypervisor_failed',
    detail = `simulated failure of ${operation}`,
  ): void {
    this.#failing.set(operation, { times, code, detail })
  }

  /** Calls of the operation hang until the returned function is called. */
  hang(operation: SimulatedOperation): () => void {
    const listener = Promise.withResolvers<void>()
    this.#hanging.set(operation, listener)
    return () => {
      this.#hanging.delete(operation)
      listener.resolve()
    }
  }

  silent(desktopId: DesktopId): boolean {
    return this.guestsSilent || this.silentGuests.has(desktopId)
  }

  /** Every operation calls this first. */
  async enter(operation: SimulatedOperation, signal?: AbortSignal): Promise<void> {
    this.counts[operation] = (this.counts[operation] ?? 0) + 1
    if (this.down) throw new Refusal('host_unreachable', 'the simulated hypervisor does not answer')
    await this.#hang(operation, signal)
    const latency = this.latencyMs[operation]
    if (latency) await sleep(latency, undefined, { signal })
    const failing = this.#failing.get(operation)
    if (!failing || failing.times === 0) return
    failing.times--
    throw new Refusal(failing.code, failing.detail)
  }

  async #hang(operation: SimulatedOperation, signal?: AbortSignal): Promise<void> {
    const listener = this.#hanging.get(operation)
    if (!listener) return
    if (!signal) return listener.promise
    const { promise, reject } = Promise.withResolvers<void>()
    const stop = () => reject(signal.reason)
    signal.addEventListener('abort', stop, { once: true })
    await Promise.race([listener.promise, promise]).finally(() => signal.removeEventListener('abort', stop))
  }

  #plan(text: string): void {
    const [operation, code = 'hypervisor_failed', times = '1'] = text.split(':')
    const known = simulatedOperations.find((name) => name === operation)
    if (!known)
      throw new Error(`"${operation}" is not a simulated operation; use one of ${simulatedOperations.join(', ')}`)
    this.failNext(known, Number(times), refusalCode.parse(code))
  }
}
