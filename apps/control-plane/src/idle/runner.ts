// Hibernates desktops that are idle: looks at those that may be due, checks each due one with its host, and begins the
// operation that a caller would begin. Everything that it needs later is in the database, so that another leader goes on.
import { newId, Refusal, refuse } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import type { HostReports } from '../activity/host-reports.ts'
import type { Links } from '../agents/links.ts'
import type { Db, Pool } from '../db/pool.ts'
import * as settings from '../desktops/idle-settings.ts'
import type { Desktops } from '../desktops/service.ts'
import { restartIdleTime } from '../hosts/installation.ts'
import type { WorkLimits } from '../hosts/work-limits.ts'
import type { Leadership, Term } from '../leadership/leadership.ts'
import type { Engine } from '../operations/engine.ts'
import { wholeOrg } from '../principals/scope.ts'
import { Failures } from './failures.ts'
import { conditionOf, judge } from './judge.ts'
import { factsOf, type IdleRow, readIdle } from './store.ts'

export interface RunnerOptions {
  pool: Pool
  leadership: Leadership
  engine: Pick<Engine, 'wait'>
  links: Pick<Links, 'command'>
  desktops: Pick<Desktops, 'request'>
  reports: HostReports
  workLimits: WorkLimits
  enabled: boolean
  /** Hibernations that begin in a second, in all. */
  perSecond: number
  log: Log
}

/** Desktops that are judged in one look, for each that may begin: most of them are not due. */
const lookedAtPerBegun = 8
const observeTimeoutMs = 2_000
/** While it is off, the idle time restarts this often. */
const offEveryMs = 10_000

export class IdleRunner {
  readonly #options: RunnerOptions
  /** Hibernations of this leader in progress, by host. */
  readonly #working = new Map<string, number>()
  readonly #failures = new Failures()
  /** Desktops whose hibernation goes on, or has ended and is not noted yet. */
  readonly #followed = new Set<string>()
  #restartedAt = -Infinity
  #lookedAt = -Infinity

  constructor(options: RunnerOptions) {
    this.#options = options
  }

  /** To be called twice a second. Begins what has fallen due, within the limits per host and per second. */
  async look(): Promise<void> {
    const { pool, leadership, enabled } = this.#options
    const { term } = leadership
    if (!term) return
    if (!enabled) return this.#restart()
    let left = this.#budget()
    const ids = await settings.dueIds(pool, lookedAtPerBegun * left)
    const free = ids.filter((id) => !this.#followed.has(id))
    const due = await this.#judgeAll(await readIdle(pool, free))
    const chosen = due.filter(({ hostId }) => left > 0 && this.#enter(hostId!) && left-- > 0)
    // The others come before or after those that fall due meanwhile, by chance: no host and no customer waits for another.
    const waiting = due.filter((row) => !chosen.includes(row))
    await settings.lookAgain(
      pool,
      waiting.map(({ id }) => ({ id, inMs: Math.random() * (1_000 + 20 * due.length) })),
    )
    await Promise.all(chosen.map((row) => this.#hibernate(term, row)))
  }

  /** How many may begin now: this many per second since the last look, at most those of two seconds. */
  #budget(): number {
    const now = performance.now()
    const secs = Math.min(2, (now - this.#lookedAt) / 1_000)
    this.#lookedAt = now
    return Math.ceil(this.#options.perSecond * secs)
  }

  /** Idle time does not count while desktops do not hibernate by themselves. */
  async #restart(): Promise<void> {
    if (performance.now() - this.#restartedAt < offEveryMs) return
    this.#restartedAt = performance.now()
    await restartIdleTime(this.#options.pool)
  }

  /** Those that have fallen due. Notes of the others when to look again. */
  async #judgeAll(rows: IdleRow[]): Promise<IdleRow[]> {
    const { pool } = this.#options
    const verdicts = rows.map((row) => ({ row, verdict: judge(factsOf(row, this.#options)) }))
    const others = verdicts.filter(({ verdict }) => verdict.sleepsInMs !== 0)
    await settings.lookAgain(
      pool,
      others.map(({ row, verdict }) => ({ id: row.id, inMs: Math.max(minLookMs, verdict.lookAgainInMs) })),
    )
    const due = verdicts.filter(({ verdict }) => verdict.sleepsInMs === 0).map(({ row }) => row)
    return due
  }

  /** Takes a place among the hibernations of the host; false if it has as many as it may have. */
  #enter(hostId: string): boolean {
    const working = this.#working.get(hostId) ?? 0
    if (working >= Math.max(1, Math.floor(this.#options.workLimits.of(hostId) * shareOfHost))) return false
    this.#working.set(hostId, working + 1)
    return true
  }

  #leave(hostId: string): void {
    const left = (this.#working.get(hostId) ?? 1) - 1
    if (left > 0) this.#working.set(hostId, left)
    else this.#working.delete(hostId)
  }

  /** Never rejects. Returns once it has begun, or will be looked at again. */
  async #hibernate(term: Term, row: IdleRow): Promise<void> {
    const { pool, log } = this.#options
    const hostId = row.hostId!
    try {
      await this.#ask(row)
      await this.#begin(term, row)
    } catch (error) {
      this.#leave(hostId)
      const isInUse = error instanceof Refusal && error.code === 'not_idle'
      if (!isInUse) log.info({ err: error, desktop: row.id }, 'an idle desktop could not be hibernated yet')
      const inMs = isInUse ? minLookMs : this.#failures.note(row.id)
      await settings.lookAgain(pool, [{ id: row.id, inMs }]).catch(() => log.debug('it stays due'))
    }
  }

  /** The host may have more than its last heartbeat reported. */
  async #ask({ id: desktopId, hostId }: IdleRow): Promise<void> {
    const { links, reports } = this.#options
    const { activity } = await links.command(hostId!, 'desktop.observe', { desktopId }, { timeoutMs: observeTimeoutMs })
    if (activity) reports.observed(hostId!, activity)
  }

  async #begin(term: Term, row: IdleRow): Promise<void> {
    const { desktops, engine } = this.#options
    const { operation } = await desktops.request(wholeOrg(row.orgId), row.id, 'hibernate', {
      key: null,
      fingerprint: Buffer.alloc(0),
      requestId: newId(),
      requestedBy: 'idle',
      expectedGeneration: row.generation,
      discardMemory: false,
      idle: { condition: conditionOf(row), requireIdle: (tx, { id }) => this.#requireIdle(tx, id) },
    })
    void this.#follow(term, row, engine.wait(operation, term.signal))
  }

  /** Judges once more, under the desktop's lock. Meanwhile, another hibernation may have failed. */
  async #requireIdle(tx: Db, id: string): Promise<void> {
    const [row] = await readIdle(tx, [id])
    if (this.#followed.has(id) || !row?.isDue) refuse('not_idle')
    const { sleepsInMs, because } = judge(factsOf(row, this.#options))
    if (sleepsInMs !== 0) refuse('not_idle', because[0]?.detail)
  }

  async #follow(term: Term, { id, hostId }: IdleRow, settled: ReturnType<Engine['wait']>): Promise<void> {
    const { pool, log } = this.#options
    this.#followed.add(id)
    try {
      const { state, errorCode } = await settled
      if (term.signal.aborted) return
      if (state !== 'failed') return this.#failures.forget(id)
      const inMs = errorCode === 'not_idle' ? minLookMs : this.#failures.note(id)
      await settings.lookIn(pool, id, inMs)
    } catch (err) {
      log.warn({ err, desktop: id }, 'the end of a hibernation was not noted; the desktop is looked at again')
    } finally {
      this.#followed.delete(id)
      this.#leave(hostId!)
    }
  }
}

const minLookMs = 1_000
/** The share of a host's operations in flight that this may use: the rest is for callers. */
const shareOfHost = 0.25
