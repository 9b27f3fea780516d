// Does what desktops have planned: wakes and hibernates them by their schedule, and destroys them at their end, by the requests
// that a caller would send. Everything that it needs later is in the database, so that another leader goes on.
import { newId, Refusal, type RequestKind } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import type { Db, Note, Pool } from '../db/pool.ts'
import type { PlanRow } from '../desktops/plan-store.ts'
import * as store from '../desktops/plan-store.ts'
import type { Desktops } from '../desktops/service.ts'
import { noteOfDesktop } from '../events/noted.ts'
import type { Leadership } from '../leadership/leadership.ts'
import { wholeOrg } from '../principals/scope.ts'
import { type Due, judge, lookAt, type SkipReason, type Verdict } from './judge.ts'

export interface SchedulesOptions {
  pool: Pool
  leadership: Leadership
  desktops: Pick<Desktops, 'request'>
  log: Log
}

/** Desktops that are looked at together. */
const together = 100
/** One look goes on for so long while more are due. */
const lookMs = 5_000
const retryMs = 5_000

/** The plan has changed since it was read: the desktop is looked at again. */
class Changed extends Error {}

export class Schedules {
  readonly #options: SchedulesOptions

  constructor(options: SchedulesOptions) {
    this.#options = options
  }

  /** To be called twice a second. */
  async look(): Promise<void> {
    const { pool, leadership } = this.#options
    const endsAt = performance.now() + lookMs
    const seen = new Set<string>()
    while (leadership.term && performance.now() < endsAt) {
      const ids = (await store.dueIds(pool, together)).filter((id) => !seen.has(id))
      if (ids.length === 0) return
      for (const id of ids) seen.add(id)
      await Promise.all((await store.read(pool, ids)).map((row) => this.#do(row)))
    }
  }

  /** Never rejects. The desktop is looked at again when it may have something to do. */
  async #do(row: PlanRow): Promise<void> {
    const { pool, log } = this.#options
    try {
      await this.#follow(row, judge(row))
    } catch (error) {
      if (!(error instanceof Changed)) log.info({ err: error, desktop: row.id }, 'a plan of a desktop is tried again')
      const inMs = error instanceof Changed ? 0 : retryMs
      await store.lookAgainIn(pool, [row.id], inMs).catch(() => log.debug('it stays due'))
    }
  }

  async #follow(row: PlanRow, verdict: Verdict): Promise<void> {
    if (verdict.do === 'destroy') return this.#request(row, verdict, 'destroy')
    if (verdict.do !== 'act') return this.#settle(row, verdict)
    await this.#request(row, verdict, verdict.action).catch((error: unknown) => {
      if (!(error instanceof Refusal) || mayPass(error)) throw error
      return this.#settle(row, { ...verdict, do: 'skip', reason: error.code })
    })
  }

  /** The request, and the note that it is done, in one transaction. */
  async #request(row: PlanRow, verdict: Verdict, kind: RequestKind): Promise<void> {
    const transition = {
      key: null,
      fingerprint: Buffer.alloc(0),
      requestId: newId(),
      requestedBy: 'schedule' as const,
      expectedGeneration: null,
      discardMemory: false,
    }
    const note: Note = (tx) => this.#note(tx, row, verdict)
    await this.#options.desktops.request(wholeOrg(row.orgId), row.id, kind, transition, note)
  }

  #settle(row: PlanRow, verdict: Verdict): Promise<void> {
    return this.#options.leadership.transaction((tx) => this.#note(tx, row, verdict))
  }

  /** Notes what came of it and when to look again, if the plan is still the one that was judged. */
  async #note(tx: Db, row: PlanRow, verdict: Verdict): Promise<void> {
    const [locked] = await store.read(tx, [row.id], true)
    const isRequested = verdict.do === 'act' || verdict.do === 'destroy'
    if (!locked || !isSamePlan(locked, row) || !(isRequested || locked.state === row.state)) throw new Changed()
    const after = { ...locked.after }
    if ('action' in verdict) {
      after[verdict.action] = verdict.until
      await store.noteDone(tx, row.id, verdict.action, verdict.until)
    }
    if (verdict.do === 'pass' && verdict.action === 'wake') await store.noteStaysAwake(tx, row.id)
    if (verdict.do === 'skip') await noteOfDesktop(tx, row.id, 'desktop.schedule_skipped', skipped(verdict), true)
    if (verdict.do === 'note_end') {
      await store.noteEndNoted(tx, row.id)
      // The first one never gives way to others. Those that follow a change of the end can be made in a loop.
      const data = { destroy_at: locked.destroyAt!.toISOString() }
      await noteOfDesktop(tx, row.id, 'desktop.destroy_soon', data, locked.isEndNotedLately)
    }
    const next = { ...locked, after, destroySoonNoted: locked.destroySoonNoted || verdict.do === 'note_end' }
    if (verdict.do === 'look_again') await store.lookAgainIn(tx, [row.id], verdict.inMs)
    else await store.lookAgainAt(tx, row.id, lookAt(next))
  }
}

const skipped = ({ action, plannedAt, reason }: Due & { reason: SkipReason }) => ({
  action,
  planned_at: plannedAt.toISOString(),
  reason,
})

/** Whether it may succeed later: the service is busy, or the desktop is between two states. */
const mayPass = ({ code, status }: Refusal): boolean =>
  status === 429 || status === 503 || code === 'wrong_state' || code === 'conflict' || code === 'not_found'

const isSamePlan = (one: PlanRow, other: PlanRow): boolean =>
  [one, other]
    .map(({ schedule, after, destroyAt, destroySoonNoted }) =>
      JSON.stringify([schedule, after.wake, after.hibernate, destroyAt, destroySoonNoted]),
    )
    .every((text, _, all) => text === all[0])
