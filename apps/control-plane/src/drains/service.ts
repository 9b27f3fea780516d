// Drains: plans them, begins them, shows how far they have come, and cancels them. Knows no HTTP. `runner.ts` carries them on.
import { type DrainBody, type DrainJson, newId, type Refusal, refuse } from '@dormouse/contract'
import { heldOf } from '../activity/wake-locks.ts'
import { type Note, retryWhileUnavailable } from '../db/pool.ts'
import { durationsLately } from '../operations/durations.ts'
import { judge, type View } from './judge.ts'
import { needsOfAll } from './needs.ts'
import { DrainRunner, type RunnerOptions } from './runner.ts'
import { drainToJson, planned } from './shown.ts'
import type { DrainRow, NewDrain } from './store.ts'
import * as store from './store.ts'
import { readPlanned, readView } from './view.ts'

export type DrainParams = Omit<DrainBody, 'dry_run'>

const unnoted: Note = async () => undefined

export class Drains {
  readonly runner: DrainRunner
  readonly #options: RunnerOptions

  constructor(options: RunnerOptions) {
    this.#options = options
    this.runner = new DrainRunner(options)
  }

  /**
   * Cordons the host and begins to drain it. Returns the drain that is in progress if it has the same parameters; refuses
   * with `conflict` if it has others.
   */
  async start(nameOrId: string, params: DrainParams, note: Note): Promise<DrainJson> {
    const { leadership, hosts } = this.#options
    const id = await leadership.transaction(async (tx) => {
      const host = await hosts.findPresent(tx, nameOrId)
      if (host.lostAt) refuse('conflict', `${host.name} was declared lost; nothing on it can move`)
      await hosts.setCordoned(tx, host.id, true, unnoted)
      const drain = newDrain(host.id, params)
      const earlier = await store.liveOf(tx, host.id)
      if (earlier && !isSame(earlier, drain))
        refuse('conflict', `${host.name} is drained by ${earlier.id} with other parameters; cancel it first`)
      if (!earlier) {
        await store.insert(tx, drain)
        await hosts.setDrain(tx, host.id, drain.id)
      }
      await note(tx, host.id, earlier ? null : { name: host.name, drain_id: drain.id, ...params })
      return earlier?.id ?? drain.id
    })
    void this.runner.look(id)
    return this.show(id)
  }

  /** What a drain would do now. Changes nothing. */
  async plan(nameOrId: string, params: DrainParams): Promise<DrainJson> {
    const { pool, hosts, images } = this.#options
    const host = await hosts.findPresent(pool, nameOrId)
    const view = await readPlanned(pool, plannedRow(newDrain(host.id, params)))
    const judged = judge(view)
    // Another operation is in progress: what it needs is known by its state after that.
    const found = await hosts.outlook(await needsOfAll(images, judged.ready, hosts.mayRelay))
    const places = new Map(judged.ready.map(({ desktop }, at) => [desktop.id, found[at]!] as const))
    return this.#toJson(view, planned(judged, places), places)
  }

  async show(id: string): Promise<DrainJson> {
    const view = (await retryWhileUnavailable(() => readView(this.#options.pool, id))) ?? unknown()
    return this.#toJson(view, view.drain.settledAt ? [...view.known.values()] : judge(view).all)
  }

  /**
   * Ends the drain: nothing more begins, and moves that are not decided yet are undone. What has moved stays there, what was
   * hibernated stays so, and the host stays cordoned. Idempotent.
   */
  async cancel(id: string, note: Note): Promise<DrainJson> {
    await this.#options.leadership.transaction(async (tx) => {
      const drain = (await store.find(tx, id)) ?? unknown()
      const cancelled = await store.cancel(tx, id)
      await note(tx, drain.id, cancelled ? { host_id: drain.hostId } : null)
    })
    await this.runner.look(id)
    return this.show(id)
  }

  async #toJson(
    view: View,
    all: store.DrainedDesktop[],
    places?: ReadonlyMap<string, { id: string } | Refusal>,
  ): Promise<DrainJson> {
    const { pool, hosts } = this.#options
    const ids = all.map(({ desktopId }) => desktopId)
    const [listed, durations, locks] = await Promise.all([hosts.list(), durationsLately(pool), heldOf(pool, ids)])
    const hostNames = new Map(listed.map(({ id, name }) => [id, name]))
    return drainToJson({ view, all, hostNames, durations, locks, ...(places && { places }) })
  }
}

const unknown = (): never =>
  refuse('not_found', 'there is no such drain; `dormouse admin host list` names those in progress')

const newDrain = (hostId: string, params: DrainParams): NewDrain => ({
  id: newId(),
  hostId,
  sleeping: params.sleeping ?? 'leave',
  awake: params.awake ?? 'live',
  concurrency: params.concurrency ?? 2,
  graceSecs: params.grace_secs ?? 60,
  deadlineSecs: params.deadline_secs ?? 3_600,
})

const isSame = (one: NewDrain, other: NewDrain): boolean =>
  (['sleeping', 'awake', 'concurrency', 'graceSecs', 'deadlineSecs'] as const).every(
    (name) => one[name] === other[name],
  )

const plannedRow = (drain: NewDrain): DrainRow => {
  const now = new Date()
  return { ...drain, state: 'running', createdAt: now, settledAt: null, late: false, now }
}
