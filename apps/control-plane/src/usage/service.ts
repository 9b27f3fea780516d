// An organisation's usage, and the comparison of the ledger with what hosts report as running. Knows no HTTP.
import type { Heartbeat, Selector, UsageJson } from '@dormouse/contract'
import { Refusal, refuse } from '@dormouse/contract'
import { eachApart, type Log } from '@dormouse/process'
import type { Links } from '../agents/links.ts'
import type { Found, StandingAlarms } from '../alarms/service.ts'
import { Gathered } from '../db/gathered.ts'
import type { LongReads, Pages } from '../db/long-reads.ts'
import { type Db, isDatabaseUnavailable, type Pool, retryWhileUnavailable } from '../db/pool.ts'
import { snapshot, transaction } from '../db/transactions.ts'
import * as desktops from '../desktops/store.ts'
import type { Leadership } from '../leadership/leadership.ts'
import * as ledger from '../ledger/store.ts'
import * as operations from '../operations/store.ts'
import { type Choice, chosen, type Reach } from '../principals/scope.ts'
import { Rotation } from '../reconcile/rotation.ts'
import { type Difference, differences, nameOf } from './differences.ts'
import { totalsOf } from './totals.ts'

export interface UsageOptions {
  pool: Pool
  leadership: Leadership
  longReads: LongReads
  links: Links
  alarms: StandingAlarms
  log: Log
}

export interface Span {
  start: number
  end: number
}

/** Responses about more desktops are streamed while they are read. */
const atOnceMax = 1_000

/** Further differences are confirmed at the next comparison. */
const mostConfirmed = 50
const observeTimeoutMs = 10_000
/** Hosts whose reports are compared in one piece of work. A request waits until it has ended. */
const comparedAtOnce = 50

export interface UsageParams {
  start?: number | undefined
  end?: number | undefined
}

export class Usage {
  readonly #options: UsageOptions
  readonly #proofs: Gathered<ledger.Proof, undefined>
  /** What each linked host reported last. */
  readonly #running = new Map<string, ledger.Living[]>()
  /** Those of them that the hosts themselves have confirmed. */
  readonly #confirmed = new Map<string, Found>()
  /** Differences of the last comparison. */
  #suspected = new Set<string>()
  readonly #turns = new Rotation()

  constructor(options: UsageOptions) {
    this.#options = options
    this.#proofs = new Gathered(async (proofs) => {
      await ledger.prove(options.pool, proofs)
      return proofs.map(() => undefined)
    })
    options.links.on('unlinked', (hostId) => this.#running.delete(hostId))
  }

  /** The span of the query in Unix seconds, by default from the beginning of the month (UTC) until now. */
  span(params: UsageParams, now = new Date()): Span {
    const { start = Date.UTC(now.getUTCFullYear(), now.getUTCMonth()) / 1_000, end = now.getTime() / 1_000 } = params
    if (start > end) {
      const field = params.start === undefined ? 'end' : 'start'
      refuse('invalid_request', `${field}: start (${start}) is later than end (${end})`, { field })
    }
    return { start, end }
  }

  /** The seconds of each desktop in the span and their sums; undefined if there are too many rows for one response. */
  async query(caller: Reach, span: Span, selector: Selector | null): Promise<UsageJson | undefined> {
    const rows = await retryWhileUnavailable(() =>
      ledger.used(this.#options.pool, { ...reached(caller, selector), ...span, limit: atOnceMax + 1 }),
    )
    if (rows.length > atOnceMax) return undefined
    return { ...span, desktops: rows.map(usedToJson), totals: totalsOf(rows).map(inSeconds) }
  }

  /** The same for any number of rows, as a snapshot. */
  queryAll(caller: Reach, span: Span, selector: Selector | null, gone: AbortSignal): Promise<Pages<ledger.UsedMs>> {
    const query = ledger.usedQuery({ ...reached(caller, selector), ...span, limit: null })
    return this.#options.longReads.open(caller.orgId, query, gone)
  }

  /** A heartbeat proves that its desktops run. Only the leader stores it: every replica receives the same heartbeat. */
  async heard(hostId: string, { running, facts }: Heartbeat): Promise<void> {
    if (!this.#options.leadership.term) return
    // An unhealthy host cannot list what it runs, which is no difference.
    if (facts.ailment === null) this.#running.set(hostId, running)
    else this.#running.delete(hostId)
    await this.#proofs.add({ hostId, running }).catch((err: unknown) => {
      const level = isDatabaseUnavailable(err) ? 'debug' : 'warn'
      this.#options.log[level](
        { err, host: hostId },
        'a proof of life could not be stored; the next heartbeat brings another',
      )
    })
  }

  /**
   * Compares the ledger with the hosts' reports. A report may be older than the ledger, so a difference in two comparisons in
   * a row is confirmed before it raises an alarm.
   */
  async compare(): Promise<void> {
    const found = await this.#differences()
    const again = found.filter((one) => this.#suspected.has(nameOf(one)))
    this.#suspected = new Set(found.map(nameOf))
    const { log, alarms } = this.#options
    const left = new Set(again.map(nameOf))
    for (const name of this.#confirmed.keys()) if (!left.has(name)) this.#confirmed.delete(name)
    const failed = (err: unknown, { hostId }: Difference) =>
      log.warn({ err, host: hostId }, 'a difference between the ledger and a host could not be confirmed; retrying')
    await eachApart(this.#turns.take(again, mostConfirmed, nameOf), { atOnce: mostConfirmed, failed }, async (one) => {
      if (await this.#isConfirmed(one)) this.#confirmed.set(nameOf(one), wrongBy(one))
      else this.#confirmed.delete(nameOf(one))
    })
    await alarms.are('ledger', 'all', [...this.#confirmed.values()], log)
  }

  /**
   * Compares desktops without an operation in progress, some hosts at a time. A desktop that is not the host's own is handled
   * by the comparison of its inventory.
   */
  async #differences(): Promise<Difference[]> {
    const left = [...this.#running.keys()]
    const found: Difference[] = []
    while (left.length > 0) {
      const some = new Set(left.splice(0, comparedAtOnce))
      const said = new Map([...this.#running].filter(([hostId]) => some.has(hostId)))
      found.push(...(await this.#differencesOf(said)))
    }
    return found
  }

  async #differencesOf(said: ReadonlyMap<string, ledger.Living[]>): Promise<Difference[]> {
    const read = async (tx: Db) => {
      const found = differences(said, await ledger.awakeOn(tx, [...said.keys()]))
      const ids = found.map(({ desktopId }) => desktopId)
      const busy = new Set([...(await desktops.inTransition(tx, ids)), ...(await operations.liveAmong(tx, ids))])
      return { found, busy, own: await desktops.placesOf(tx, ids) }
    }
    const { found, busy, own } = await transaction(this.#options.pool, read, { begin: snapshot })
    return found.filter(
      ({ desktopId, hostId, what }) => !busy.has(desktopId) && (what === 'unproved' || own.get(desktopId) === hostId),
    )
  }

  /** Whether the host itself contradicts the ledger now, while nothing changes the desktop. */
  async #isConfirmed(difference: Difference): Promise<boolean> {
    const { desktopId, hostId, generation } = difference
    const before = await this.#stateOf(difference)
    const runs = await this.#options.links
      .command(hostId, 'desktop.observe', { desktopId }, { timeoutMs: observeTimeoutMs })
      .then((seen) => seen.domain === 'running' && seen.generation === generation)
      .catch((error: unknown) => {
        if (!(error instanceof Refusal)) throw error
        return error.code === 'unknown_desktop' ? false : undefined
      })
    const after = await this.#stateOf(difference)
    return runs === !after.isBooked && before.mark === after.mark && after.mark !== undefined
  }

  /** `mark` changes with every change of the desktop; undefined while an operation is in progress. */
  #stateOf(difference: Difference): Promise<{ isBooked: boolean; mark: string | undefined }> {
    const { desktopId } = difference
    const read = async (tx: Db) => {
      const [row] = await desktops.findMany(tx, [desktopId])
      const isQuiet = row !== undefined && !(await operations.hasLive(tx, desktopId))
      const mark = isQuiet ? `${row.state} ${row.turn} ${row.updatedAt.getTime()}` : undefined
      return { isBooked: await ledger.isAwakeOn(tx, difference), mark }
    }
    return transaction(this.#options.pool, read, { begin: snapshot })
  }
}

function wrongBy(difference: Difference): Found {
  const { what, desktopId, hostId, ...facts } = difference
  const text =
    what === 'unbooked'
      ? 'a host runs a desktop that the ledger does not count'
      : 'the ledger counts a desktop as awake that its host does not run'
  return { subject: nameOf(difference), hostId, desktopId, what: text, facts }
}

/** What the caller reaches of what the request selects. */
const reached = ({ orgId, scope }: Reach, selector: Selector | null): Choice & { orgId: string } => ({
  orgId,
  ...chosen(scope, { selector, desktopId: null })!,
})

export const usedToJson = (row: ledger.UsedMs) => ({ desktop_id: row.desktopId, ...inSeconds(row) })

export const inSeconds = ({ tier, billingMode, awakeMs, hibernatedMs }: Omit<ledger.UsedMs, 'desktopId'>) => ({
  tier,
  billing_mode: billingMode,
  awake_seconds: awakeMs / 1_000,
  hibernated_seconds: hibernatedMs / 1_000,
})
