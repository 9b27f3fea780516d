// Hibernates idle desktops while this host has no contact with a leader, by the rules that the last leader sent. Off unless it
// is configured.
import type { DesktopId, HeartbeatAnswer, IdleRule } from '@dormouse/contract'
import { Refusal } from '@dormouse/contract'
import { eachApart } from '@dormouse/process'
import { hibernate, type SaveDeps } from './hibernate.ts'
import type { Turns } from './turns.ts'
import type { Watch } from './watch.ts'

interface Deps extends SaveDeps {
  turns: Turns
  watch: Pick<Watch, 'running'>
}

interface Options {
  /** How much longer than a desktop's timeout the contact must have been lost; undefined switches it off. */
  graceMs: number | undefined
  now?: () => number
}

const askEveryMs = 30_000
const because = 'hibernated by its host: it was idle, and the host heard no leader'

/** Hibernations wait for a place among the host's work besides. */
const hibernatedAtOnce = 4

export class WithoutLeader {
  readonly #deps: Deps
  readonly #graceMs: number | undefined
  readonly #now: () => number
  /** By the monotonic clock. */
  #heardAt: number
  #rulesAt = -Infinity
  #rules = new Map<DesktopId, IdleRule>()
  /** What ran when the rules came. */
  #ranThen = new Set<DesktopId>()

  constructor(deps: Deps, { graceMs, now = () => performance.now() }: Options) {
    this.#deps = deps
    this.#graceMs = graceMs
    this.#now = now
    this.#heardAt = now()
  }

  /** Whether the next heartbeat asks the leader for the rules: now and then, and when a desktop has begun to run. */
  get asks(): boolean {
    if (this.#graceMs === undefined) return false
    if (this.#now() - this.#rulesAt >= askEveryMs) return true
    return this.#deps.watch.running().some(({ desktopId }) => !this.#ranThen.has(desktopId))
  }

  /** A replica has answered a heartbeat. */
  heard({ leads, idleRules }: Pick<HeartbeatAnswer, 'leads' | 'idleRules'>): void {
    if (!leads) return
    this.#heardAt = this.#now()
    if (!idleRules) return
    this.#rulesAt = this.#heardAt
    this.#rules = new Map(idleRules.map((rule) => [rule.desktopId, rule]))
    this.#ranThen = new Set(this.#deps.watch.running().map(({ desktopId }) => desktopId))
  }

  /** To be called every few seconds. Saves one desktop after the other. */
  async check(): Promise<void> {
    const silentMs = () => this.#now() - this.#heardAt
    if (this.#graceMs === undefined || silentMs() <= this.#graceMs) return
    const grace = this.#graceMs
    const rules = this.#deps.watch.running().flatMap(({ desktopId }) => this.#rules.get(desktopId) ?? [])
    const failed = (err: unknown, { desktopId }: IdleRule) =>
      this.#deps.log.warn({ err, desktopId }, 'an idle desktop could not be hibernated without a leader; retrying')
    await eachApart(rules, { atOnce: hibernatedAtOnce, failed }, async (rule) => {
      if (silentMs() > rule.condition.forMs + grace && this.#isFree(rule)) await this.#hibernate(rule)
    })
  }

  /** No wake lock holds it, and nobody sees its screen. */
  #isFree({ desktopId, heldMs }: IdleRule): boolean {
    return this.#now() - this.#rulesAt > heldMs && !this.#deps.activity.isShown(desktopId)
  }

  /** Takes the turn between two commands, and raises none: a command that comes meanwhile waits, and finds the saved memory. */
  async #hibernate({ desktopId, condition }: IdleRule): Promise<void> {
    const { turns, journal, log } = this.#deps
    const entry = journal.read(desktopId)
    if (!entry?.running) return
    try {
      await turns.whileIdle(desktopId, entry, async (turn) => {
        await hibernate(this.#deps, turn, condition)
        await turn.note({ sleptBecause: because })
        log.warn({ desktopId }, 'an idle desktop was hibernated, because there was no contact with a leader')
      })
    } catch (err) {
      if (!(err instanceof Refusal) || err.code !== 'not_idle') throw err
      log.debug({ desktopId, why: err.detail }, 'the desktop is in use')
    }
  }
}
