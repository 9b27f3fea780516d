// Who may see or control a desktop's screen, and pictures of it. Knows no socket.
import { newId, Refusal, refusals, refuse, type StreamBody } from '@dormouse/contract'
import type { Channels } from '../agents/channels.ts'
import type { Links } from '../agents/links.ts'
import * as audit from '../audit/store.ts'
import { type Db, type Pool, patiently, transaction } from '../db/pool.ts'
import { requireAwake } from '../desktops/require-awake.ts'
import type { Desktops } from '../desktops/service.ts'
import type { Customer } from '../principals/service.ts'
import { openChannel } from './host-channel.ts'
import type { IssuedTokens } from './issued-tokens.ts'
import type { Screen } from './store.ts'
import * as store from './store.ts'
import { hashOf, makeToken } from './tokens.ts'

export interface StreamsOptions {
  pool: Pool
  desktops: Desktops
  links: Links
  channels: Channels
  given: IssuedTokens
  /** Somebody else's socket may have to end: look at once, not at the next turn. */
  onHandedOver(): void
}

export interface Grant {
  token: string
  expiresAt: Date
}

const pictureTimeoutMs = 10_000
const pictureMaxBytes = 64 * 1024 * 1024

export class Streams {
  readonly #options: StreamsOptions

  constructor(options: StreamsOptions) {
    this.#options = options
  }

  /** Gives the claim to the caller, or refuses with `claim_held`, naming until when another holds it. */
  async open(caller: Customer, desktopId: string, { claim, takeover }: StreamBody): Promise<Grant> {
    const { desktops, given, onHandedOver } = this.#options
    const holder = caller.subject ?? refuse('forbidden', 'this route needs a token with a `sub` claim')
    const { generation } = requireAwake(await desktops.get(caller, desktopId))
    const goodForMs = caller.goodUntil === null ? null : Math.round(caller.goodUntil - Date.now())
    const screen = { desktopId, claim }
    const wish = { holder, goodForMs, generation, takeover: takeover ?? false }
    const { lost, ...grant } = await patiently(() => this.#grant(screen, wish))
    given.note(hashOf(grant.token))
    if (lost) onHandedOver()
    return grant
  }

  /** A holder who asks twice has another token. */
  #grant(screen: Screen, wish: store.Holder & { takeover: boolean }): Promise<Grant & { lost: boolean }> {
    const { token, hash } = makeToken()
    return transaction(this.#options.pool, async (tx) => {
      const { holdId, lost } = await hold(tx, screen, wish)
      const { generation } = wish
      return { token, lost, expiresAt: await store.insertToken(tx, screen, { hash, holdId, generation }) }
    })
  }

  /** The screen now, as PNG. */
  async picture(caller: Customer, desktopId: string, requestId: string): Promise<Buffer> {
    const { hostId, generation } = requireAwake(await this.#options.desktops.get(caller, desktopId))
    const signal = AbortSignal.timeout(pictureTimeoutMs)
    try {
      const wish = { hostId, name: 'stream.picture', desktopId, generation, requestId } as const
      const channel = await openChannel(this.#options, wish, signal)
      channel.end()
      const whole: Buffer[] = []
      let bytes = 0
      for await (const chunk of channel) {
        bytes += whole.push(chunk) && chunk.length
        if (bytes > pictureMaxBytes) refuse('guest_unavailable', 'the screenshot is too large; retry')
      }
      return Buffer.concat(whole)
    } catch (error) {
      throw asGuestRefusal(error, signal)
    }
  }

  /** Forgets what opens nothing any more. */
  async prune(): Promise<void> {
    await store.prune(this.#options.pool)
  }
}

/** Makes the caller the holder; `lost` where somebody else was. */
async function hold(
  tx: Db,
  screen: Screen,
  wish: store.Holder & { takeover: boolean },
): Promise<{ holdId: string; lost: boolean }> {
  const now = await store.lock(tx, screen)
  if (now.holder === wish.holder) {
    await store.prolong(tx, screen, wish)
    return { holdId: now.holdId, lost: false }
  }
  const lost = now.isHeld && now.generation === wish.generation
  if (lost && !wish.takeover) {
    const { claim } = screen
    refuse('claim_held', refusals.claim_held.detail({ claim, until: now.heldUntil.toISOString() }), { claim })
  }
  if (lost) {
    const details = { claim: screen.claim, from: now.holder }
    await audit.record(tx, { actor: wish.holder, action: 'stream.takeover', subject: screen.desktopId, details })
  }
  const holdId = newId()
  await store.hand(tx, screen, { ...wish, holdId })
  return { holdId, lost }
}

function asGuestRefusal(error: unknown, deadline: AbortSignal): unknown {
  if (error instanceof Refusal)
    return error.code === 'hypervisor_failed' ? new Refusal('guest_unavailable', error.detail, error.extra) : error
  if (deadline.aborted) return new Refusal('guest_deadline', 'timed out waiting for the screenshot; retry')
  return new Refusal('host_unreachable', 'the screenshot was interrupted; retry')
}
