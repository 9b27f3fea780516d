// Claims on a desktop's screen. Knows no socket.
import { newId, refusals, refuse, type StreamBody } from '@dormouse/contract'
import * as audit from '../audit/store.ts'
import { type Db, type Pool, retryWhileUnavailable } from '../db/pool.ts'
import { transaction } from '../db/transactions.ts'
import { requireAwake } from '../desktops/require-awake.ts'
import type { Desktops } from '../desktops/service.ts'
import type { Leadership } from '../leadership/leadership.ts'
import { hashOf, makeToken } from '../principals/random-tokens.ts'
import type { Customer } from '../principals/service.ts'
import type { IssuedTokens } from './issued-tokens.ts'
import type { Screen } from './store.ts'
import * as store from './store.ts'

export interface StreamsOptions {
  pool: Pool
  leadership: Leadership
  desktops: Desktops
  issued: IssuedTokens
  /** Another client's socket may have to close: check at once, not at the next interval. */
  onTakenOver(): void
}

export interface Grant {
  token: string
  expiresAt: Date
}

export class Streams {
  readonly #options: StreamsOptions

  constructor(options: StreamsOptions) {
    this.#options = options
  }

  /** Gives the claim to the caller; refuses with `claim_held`, and until when, while another client holds it. */
  async open(caller: Customer, desktopId: string, { claim, takeover }: StreamBody): Promise<Grant> {
    const { desktops, issued, onTakenOver } = this.#options
    const holder = caller.subject ?? refuse('forbidden', 'this route needs a token with a `sub` claim')
    const { generation } = requireAwake(await desktops.get(caller, desktopId))
    const goodForMs = caller.goodUntil === null ? null : Math.round(caller.goodUntil - Date.now())
    const screen = { desktopId, claim }
    const params = { holder, goodForMs, generation, takeover: takeover ?? false }
    const { lost, ...grant } = await retryWhileUnavailable(() => this.#grant(screen, params))
    issued.note(hashOf(grant.token))
    if (lost) onTakenOver()
    return grant
  }

  /** Each request of the holder gets a new token. */
  #grant(screen: Screen, params: store.Holder & { takeover: boolean }): Promise<Grant & { lost: boolean }> {
    const { token, hash } = makeToken()
    return transaction(this.#options.pool, async (tx) => {
      const { holdId, lost } = await hold(tx, screen, params)
      const { generation } = params
      return { token, lost, expiresAt: await store.insertToken(tx, screen, { hash, holdId, generation }) }
    })
  }

  /** Notes which holds have expired. By the leader. */
  async noteExpired(): Promise<void> {
    await this.#options.leadership.transactionAtOnce((tx) => store.noteExpired(tx))
  }

  /** Deletes expired tokens and claims. */
  async prune(): Promise<void> {
    await store.prune(this.#options.pool)
  }
}

/** Makes the caller the holder; `lost` if another client was. */
async function hold(
  tx: Db,
  screen: Screen,
  params: store.Holder & { takeover: boolean },
): Promise<{ holdId: string; lost: boolean }> {
  const now = await store.lock(tx, screen)
  if (now.holder === params.holder) {
    await store.prolong(tx, screen, params)
    return { holdId: now.holdId, lost: false }
  }
  const lost = now.isHeld && now.generation === params.generation
  if (lost && !params.takeover) {
    const { claim } = screen
    refuse('claim_held', refusals.claim_held.detail({ claim, until: now.heldUntil.toISOString() }), { claim })
  }
  const holdId = newId()
  await store.hand(tx, screen, { ...params, holdId })
  if (lost) {
    const details = { claim: screen.claim, from: now.holder }
    await audit.recordOfCustomer(tx, {
      actor: params.holder,
      action: 'stream.takeover',
      subject: screen.desktopId,
      details,
    })
  }
  return { holdId, lost }
}
