// What an organisation has used, and the comparison of the ledger with what hosts say they run. Knows no HTTP.
import type { Heartbeat, UsageJson } from '@dormouse/contract'
import { refuse } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import type { Links } from '../agents/links.ts'
import { type Pool, patiently } from '../db/pool.ts'
import * as desktops from '../desktops/store.ts'
import type { Leadership } from '../leadership/leadership.ts'
import * as ledger from '../ledger/store.ts'
import type { Customer } from '../principals/service.ts'
import { type Difference, differences, nameOf } from './differences.ts'
import { totalsOf } from './totals.ts'

export interface UsageOptions {
  pool: Pool
  leadership: Leadership
  links: Links
  log: Log
}

export interface UsageWish {
  start?: number | undefined
  end?: number | undefined
}

export class Usage {
  readonly #options: UsageOptions
  /** What each linked host said last. */
  readonly #running = new Map<string, ledger.Living[]>()
  /** Found once: on the way from one state to another a difference is normal, and gone at the next look. */
  #suspected = new Set<string>()

  constructor(options: UsageOptions) {
    this.#options = options
    options.links.on('unlinked', (hostId) => this.#running.delete(hostId))
  }

  /** The seconds of each desktop between two times, by default since the month (UTC) began. Times in Unix seconds. */
  async query(caller: Customer, wish: UsageWish, now = new Date()): Promise<UsageJson> {
    const { start = Date.UTC(now.getUTCFullYear(), now.getUTCMonth()) / 1_000, end = now.getTime() / 1_000 } = wish
    if (start > end) {
      const field = wish.start === undefined ? 'end' : 'start'
      refuse('invalid_request', `${field}: start (${start}) is later than end (${end})`, { field })
    }
    const rows = await patiently(() => ledger.used(this.#options.pool, caller.orgId, start, end))
    return {
      start,
      end,
      desktops: rows.map((row) => ({ desktop_id: row.desktopId, ...inSeconds(row) })),
      totals: totalsOf(rows).map(inSeconds),
    }
  }

  /** A heartbeat proves life. Only the leader writes it down: the same word goes to every replica. */
  async heard(hostId: string, { running, facts }: Heartbeat): Promise<void> {
    if (!this.#options.leadership.term) return
    // A host that ails cannot see what it runs: that is no difference.
    if (facts.ailment === null) this.#running.set(hostId, running)
    else this.#running.delete(hostId)
    await ledger
      .prove(this.#options.pool, hostId, running)
      .catch((error) => this.#options.log.warn({ err: error, host: hostId }, 'a proof of life was not noted'))
  }

  /** Compares the ledger with what the hosts say; what differs in two looks on end is told to the operator. */
  async compare(): Promise<void> {
    const { pool, log } = this.#options
    const said = new Map(this.#running)
    const booked = await ledger.awakeOn(pool, [...said.keys()])
    const found = differences(said, booked)
    const busy = await desktops.inTransition(
      pool,
      found.map(({ desktopId }) => desktopId),
    )
    const own = await desktops.placesOf(
      pool,
      found.map(({ desktopId }) => desktopId),
    )
    // What a host runs that is not its own is for the comparison of its inventory.
    const real = found.filter(
      ({ desktopId, hostId, what }) => !busy.has(desktopId) && (what === 'unproved' || own.get(desktopId) === hostId),
    )
    for (const difference of real.filter((one) => this.#suspected.has(nameOf(one)))) this.#tell(difference, log)
    this.#suspected = new Set(real.map(nameOf))
  }

  #tell({ what, ...where }: Difference, log: Log): void {
    if (what === 'unbooked') log.error({ ...where, alarm: true }, 'a desktop runs that the ledger does not count')
    else log.error({ ...where, alarm: true }, 'the ledger holds a desktop awake that its host does not run')
  }
}

const inSeconds = ({ tier, billingMode, awakeMs, hibernatedMs }: Omit<ledger.UsedMs, 'desktopId'>) => ({
  tier,
  billing_mode: billingMode,
  awake_seconds: awakeMs / 1_000,
  hibernated_seconds: hibernatedMs / 1_000,
})
