// What customers see and change of a desktop's idleness: its view, and its wake locks. Knows no HTTP.
import {
  type ActivityClass,
  type IdleJson,
  type IdleRule,
  type NextJson,
  refuse,
  refuseNotFound,
  type WakeLockBody,
  type WakeLockJson,
  wakeLocksMax,
} from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import type { HostReports } from '../activity/host-reports.ts'
import { noteOfHosts } from '../activity/store.ts'
import * as wakeLocks from '../activity/wake-locks.ts'
import { wakeLockToJson } from '../activity/wake-locks.ts'
import { type Db, type Pool, retryWhileUnavailable } from '../db/pool.ts'
import { idleOn, lookIn } from '../desktops/idle-settings.ts'
import { read as readPlans } from '../desktops/plan-store.ts'
import { nextByPlan } from '../desktops/plans.ts'
import type { Desktops } from '../desktops/service.ts'
import * as desktops from '../desktops/store.ts'
import type { Leadership } from '../leadership/leadership.ts'
import type { Customer } from '../principals/service.ts'
import { conditionOf, judge, type Verdict } from './judge.ts'
import { IdleRunner, type RunnerOptions } from './runner.ts'
import { factsOf, type IdleRow, readIdle } from './store.ts'

export interface IdleOptions extends Omit<RunnerOptions, 'desktops'> {
  pool: Pool
  leadership: Leadership
  desktops: Desktops
  reports: HostReports
  enabled: boolean
  log: Log
}

/** Activity that is stored in one statement. */
const storedAtOnce = 2_000

export class Idle {
  readonly runner: IdleRunner
  readonly #options: IdleOptions

  constructor(options: IdleOptions) {
    this.#options = options
    this.runner = new IdleRunner(options)
  }

  /** What keeps the desktop awake, and when it will hibernate. Any replica with a link to the host has it exactly. */
  async show(caller: Customer, id: string): Promise<IdleJson> {
    const { pool, desktops: found } = this.#options
    await found.get(caller, id)
    const [row] = await retryWhileUnavailable(() => readIdle(pool, [id]))
    const [plan] = await retryWhileUnavailable(() => readPlans(pool, [id]))
    return toJson(row!, judge(factsOf(row!, this.#options)), nextByPlan(plan!))
  }

  /** What a host needs to hibernate its idle desktops without contact to a leader. */
  async rulesOf(hostId: string): Promise<IdleRule[]> {
    const { pool, enabled } = this.#options
    if (!enabled) return []
    const rows = await readIdle(pool, await idleOn(pool, hostId))
    return rows.map((row) => ({
      desktopId: row.id,
      condition: conditionOf(row),
      heldMs: Math.round(Math.max(0, -(row.ages.wake_lock ?? 0))),
    }))
  }

  /** Takes a wake lock, or renews it. Refuses with `conflict` above the limit. */
  putLock(caller: Customer, id: string, name: string, body: WakeLockBody): Promise<WakeLockJson> {
    return this.#options.leadership.transaction(async (tx) => {
      await lockLiving(tx, caller, id)
      const held = (await wakeLocks.heldOf(tx, [id])).get(id) ?? []
      if (held.length >= wakeLocksMax && !held.some((lock) => lock.name === name))
        refuse('conflict', `the desktop has ${wakeLocksMax} wake locks, which is the limit; delete one first`)
      const lock = await wakeLocks.put(tx, id, { name, reason: body.reason, forSecs: body.expires_in_secs })
      await lookIn(tx, id, 0)
      return wakeLockToJson(lock)
    })
  }

  /** Deletes a wake lock, if there is one; returns those that are left. */
  removeLock(caller: Customer, id: string, name: string): Promise<WakeLockJson[]> {
    return this.#options.leadership.transaction(async (tx) => {
      const row = await desktops.lock(tx, caller, id)
      if (!row) refuseNotFound()
      await wakeLocks.remove(tx, id, name)
      await lookIn(tx, id, 0)
      return ((await wakeLocks.heldOf(tx, [id])).get(id) ?? []).map(wakeLockToJson)
    })
  }

  /** Stores what hosts have reported since the last call, so that it outlives this replica and its links. */
  async storeReports(): Promise<void> {
    const { pool, leadership, reports } = this.#options
    for (;;) {
      if (!leadership.term) return
      const notes = reports.takeUnstored(storedAtOnce)
      if (notes.length === 0) return
      await noteOfHosts(pool, notes)
    }
  }

  /** Deletes wake locks that have expired. */
  async pruneLocks(): Promise<void> {
    const { pool, leadership } = this.#options
    if (leadership.term) await wakeLocks.prune(pool)
  }
}

async function lockLiving(tx: Db, caller: Customer, id: string): Promise<void> {
  const { state } = (await desktops.lock(tx, caller, id)) ?? refuseNotFound()
  if (state === 'destroying' || state === 'destroyed')
    refuse('wrong_state', `the desktop is ${state}, so it needs no wake lock`, { state })
}

function toJson(row: IdleRow, { activity, because, sleepsInMs }: Verdict, planned: NextJson[]): IdleJson {
  const at = (inMs: number) => new Date(row.now.getTime() + inMs).toISOString()
  const sleep: NextJson[] = sleepsInMs === null ? [] : [{ what: 'hibernate', at: at(sleepsInMs), because: 'idle' }]
  return {
    desktop_id: row.id,
    state: row.state,
    idle_timeout_secs: row.timeoutMs / 1_000,
    idle_policy: [...row.policy] as ActivityClass[],
    activity: activity.map(({ agoMs, ...one }) => ({ ...one, last_at: agoMs === null ? null : at(-agoMs) })),
    awake_because: because.map(({ leftMs, ...one }) => ({ ...one, until: leftMs === null ? null : at(leftMs) })),
    sleeps_at: sleepsInMs === null ? null : at(sleepsInMs),
    next: [...sleep, ...planned].toSorted((one, other) => one.at.localeCompare(other.at)),
    wake_locks: row.locks.map(wakeLockToJson),
  }
}
