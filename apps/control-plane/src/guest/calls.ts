// Calls to the guest of an awake desktop. The host adds nothing to a body, and its answer is what the API returns.
import { type GuestCallBody, type GuestCallName, type GuestCallResult, guestCalls, refuse } from '@dormouse/contract'
import type { Links } from '../agents/links.ts'
import type { Customer } from '../principals/service.ts'
import type { AwakeDesktops, RefusedAt } from './awake.ts'
import { type Awaken, awakening } from './awaken.ts'

/** The caller of a request, and the desktop that it is about. */
export interface Asking {
  caller: Customer
  desktopId: string
  requestId: string
  /** A client that has left waits for no answer. What its guest does goes on. */
  signal?: AbortSignal | undefined
  awaken?: Awaken | undefined
}

interface How {
  /** The guest's own timeout. */
  timeoutSecs: number
  /** The path that the refusal of a guest's file system names. */
  at?: RefusedAt | undefined
}

/** Added to the guest's own timeout: time for the host to respond. */
const marginMs = 10_000

export class GuestCaller {
  readonly #awake: AwakeDesktops
  readonly #links: Links

  constructor(awake: AwakeDesktops, links: Links) {
    this.#awake = awake
    this.#links = links
  }

  ask<N extends GuestCallName>(asking: Asking, call: N, body: GuestCallBody<N>, how: How): Promise<GuestCallResult<N>> {
    return awakening(asking.awaken, () => this.#ask(asking, call, body, how))
  }

  async #ask<N extends GuestCallName>(
    { caller, desktopId, requestId, signal }: Asking,
    call: N,
    body: GuestCallBody<N>,
    { timeoutSecs, at }: How,
  ): Promise<GuestCallResult<N>> {
    const { hostId, generation } = await this.#awake.require(caller, desktopId)
    const options = { requestId, ...(signal && { signal }) }
    try {
      return await this.askHost(hostId, { desktopId, generation, timeoutSecs }, call, body, options)
    } catch (error) {
      if (signal?.aborted) refuse('invalid_request', 'the client disconnected')
      return this.#awake.whyNot(desktopId, error, at)
    }
  }

  async askHost<N extends GuestCallName>(
    hostId: string,
    target: { desktopId: string; generation: number; timeoutSecs: number },
    call: N,
    body: GuestCallBody<N>,
    options: { requestId?: string; signal?: AbortSignal } = {},
  ): Promise<GuestCallResult<N>> {
    const timeoutMs = target.timeoutSecs * 1_000 + marginMs
    const result = guestCalls[call].result
    return (await this.#links.command(
      hostId,
      'guest.call',
      { ...target, call, body },
      { ...options, timeoutMs },
      result,
    )) as GuestCallResult<N>
  }
}
