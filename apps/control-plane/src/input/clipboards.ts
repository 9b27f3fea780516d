// The clipboards of awake desktops for programs. Their texts are in no table and no log. Any replica with a link to the host can
// serve this.
import { type ClipboardBody, type ClipboardJson, refuse } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import * as activity from '../activity/store.ts'
import type { Links } from '../agents/links.ts'
import * as audit from '../audit/store.ts'
import type { Pool } from '../db/pool.ts'
import { transaction } from '../db/transactions.ts'
import { requireAwake } from '../desktops/require-awake.ts'
import type { Desktops } from '../desktops/service.ts'
import type { Customer } from '../principals/service.ts'
import { type Borrowed, borrow, giveBack } from '../streams/borrowing.ts'
import { refuseHeld } from './human.ts'
import { asGuestRefusal, type Target } from './looks.ts'

export interface ClipboardsOptions {
  pool: Pool
  desktops: Desktops
  links: Links
  /** Another client's socket may have to close. */
  onTakenOver(): void
  log: Log
}

/** A clipboard has no share in pictures. */
type Place = Omit<Target, 'orgId'>

/** A write waits for a batch that runs. */
const [readMs, writeMs] = [20_000, 90_000]

export class Clipboards {
  readonly #options: ClipboardsOptions

  constructor(options: ClipboardsOptions) {
    this.#options = options
  }

  /** Needs no claim: a program of the organisation can read every file, too. */
  async read(caller: Customer, desktopId: string, requestId: string): Promise<ClipboardJson> {
    const { hostId, ...target } = await this.#target(caller, desktopId)
    return await this.#options.links
      .command(hostId, 'clipboard.read', target, { timeoutMs: readMs, requestId })
      .catch((error: unknown) => {
        throw asGuestRefusal(error)
      })
  }

  /** Borrows the claim `control`: a person who works at the screen must not paste what a program has copied. */
  async write(caller: Customer, desktopId: string, body: ClipboardBody, requestId: string): Promise<{ bytes: number }> {
    const { links, pool, log } = this.#options
    const holder =
      caller.subject ?? refuse('forbidden', 'this route needs a token with a `sub` claim; get one, or send an API key')
    const target = await this.#target(caller, desktopId)
    const bytes = Buffer.byteLength(body.text)
    const borrowed = await this.#borrow(caller, holder, target, body.takeover ?? false)
    try {
      const { hostId, ...of } = target
      const payload = { ...of, text: body.text }
      await links.command(hostId, 'clipboard.write', payload, { timeoutMs: writeMs, requestId })
      await transaction(pool, async (tx) => {
        await audit.recordOfCustomer(tx, {
          actor: holder,
          action: 'clipboard.write',
          subject: desktopId,
          details: { bytes },
        })
        await activity.note(tx, [{ desktopId, class: 'input', ageMs: 0 }])
      })
      return { bytes }
    } catch (error) {
      throw asGuestRefusal(error)
    } finally {
      await giveBack(pool, borrowed).catch((err) => log.warn({ err }, 'a borrowed claim was not given back'))
    }
  }

  async #target(caller: Customer, desktopId: string): Promise<Place> {
    const { desktops, links } = this.#options
    const target = { desktopId, ...requireAwake(await desktops.get(caller, desktopId)) }
    if (!links.takesCommands(target.hostId)) refuse('host_unreachable')
    return target
  }

  async #borrow({ goodUntil }: Customer, holder: string, target: Place, takeover: boolean): Promise<Borrowed> {
    const { pool, onTakenOver } = this.#options
    const { desktopId, generation } = target
    const borrowed = await transaction(pool, (tx) =>
      borrow(tx, {
        ...{ desktopId, holder, generation, takeover, forMs: writeMs },
        goodForMs: goodUntil === null ? null : Math.round(goodUntil - Date.now()),
        refuseHeld: (held) => refuseHeld(tx, desktopId, held),
      }),
    )
    if (borrowed.lost) onTakenOver()
    return borrowed
  }
}
