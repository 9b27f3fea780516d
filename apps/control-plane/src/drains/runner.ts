// Runs drains: looks at each again and again, begins what may begin, and stores the results. Everything that it needs is in the
// database, so that a later leader continues from there.
import { newId, Refusal } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import type { Links } from '../agents/links.ts'
import { inLane } from '../db/lanes.ts'
import { type Db, isDatabaseUnavailable, type Pool } from '../db/pool.ts'
import type { Moves } from '../desktops/moves.ts'
import type { Desktops } from '../desktops/service.ts'
import type { DesktopRow } from '../desktops/store.ts'
import type { Hosts } from '../hosts/service.ts'
import type { Images } from '../images/service.ts'
import type { Leadership, Term } from '../leadership/leadership.ts'
import type { Engine } from '../operations/engine.ts'
import type { OperationRow } from '../operations/store.ts'
import { wholeOrg } from '../principals/scope.ts'
import { blocked, type Judged, judge, outcomeOf, type View } from './judge.ts'
import { needsOfAll, reasonOf } from './needs.ts'
import type { DrainedDesktop, DrainRow } from './store.ts'
import * as store from './store.ts'
import { readView } from './view.ts'

export interface RunnerOptions {
  pool: Pool
  leadership: Leadership
  engine: Engine
  links: Links
  hosts: Hosts
  images: Pick<Images, 'madeFrom'>
  desktops: Desktops
  moves: Moves
  log: Log
}

type Ready = Judged['ready'][number]

const observeTimeoutMs = 5_000

export class DrainRunner {
  readonly #options: RunnerOptions
  /** Drains that are being looked at, and whether they are to be looked at once more. */
  readonly #looking = new Map<string, { again: boolean; done: Promise<void> }>()
  /** Operations whose end is awaited. */
  readonly #awaited = new Set<string>()

  constructor(options: RunnerOptions) {
    this.#options = options
  }

  /** Looks at every drain that has not settled. Does not wait. */
  async lookAtAll(): Promise<void> {
    if (!this.#options.leadership.term) return
    for (const id of await store.liveIds(this.#options.pool)) void this.look(id)
  }

  /** Looks at one drain, or once more if it is being looked at. Resolves when that is done; never rejects. */
  look(id: string): Promise<void> {
    const before = this.#looking.get(id)
    if (before) {
      before.again = true
      return before.done
    }
    const now = { again: false, done: Promise.resolve() }
    this.#looking.set(id, now)
    now.done = inLane('work', () => this.#lookWhileAsked(id, now))
    return now.done
  }

  /** Resolves when no drain is being looked at: for an orderly stop, after the term has ended. */
  async idle(): Promise<void> {
    while (this.#looking.size > 0) await Promise.all([...this.#looking.values()].map(({ done }) => done))
  }

  async #lookWhileAsked(id: string, now: { again: boolean }): Promise<void> {
    do {
      now.again = false
      const { term } = this.#options.leadership
      if (term) await this.#lookOnce(term, id).catch((error) => this.#failed(id, error))
    } while (now.again)
    this.#looking.delete(id)
  }

  #failed(drain: string, error: unknown): void {
    const passing = error instanceof Refusal || isDatabaseUnavailable(error)
    this.#options.log[passing ? 'info' : 'error']({ err: error, drain }, 'a drain was interrupted; it will go on')
  }

  async #lookOnce(term: Term, id: string): Promise<void> {
    const view = await readView(this.#options.pool, id)
    if (!view || view.drain.settledAt) return
    const judged = judge(view)
    if (view.drain.state === 'cancelling') this.#takeBack(view)
    const chosen = view.drain.state === 'running' ? await this.#choose(view, judged) : []
    const begun = new Map(chosen.map(({ known }) => [known.desktopId, begin(known)]))
    const all = judged.all.map((known) => begun.get(known.desktopId) ?? known)
    await this.#store(view, all, outcomeOf(view, all))
    await this.#beginAll(term, view.drain, chosen)
    for (const operation of view.operations.values()) this.#await(id, operation, term)
  }

  /** Moves that are not decided yet are undone. What has moved or was hibernated stays so. */
  #takeBack({ operations }: View): void {
    for (const { id, kind } of operations.values()) if (kind === 'move') this.#options.engine.giveWay(id)
  }

  /**
   * Chooses as many of those that may begin as there are free slots, and only if another host has capacity. If nothing could
   * change that, the others are blocked. Notes in `judged` why they wait.
   */
  async #choose(view: View, judged: Judged): Promise<Ready[]> {
    const { drain } = view
    const { ready, all } = judged
    const note = (desktopId: string, change: Partial<DrainedDesktop>) => {
      judged.all = judged.all.map((known) => (known.desktopId === desktopId ? { ...known, ...change } : known))
    }
    const roomless = await this.#roomless(ready)
    for (const [desktopId, reason] of roomless) note(desktopId, { reason })
    let free = drain.concurrency - all.filter(({ status }) => status === 'working').length
    const chosen: Ready[] = []
    for (const one of ready) {
      if (free <= 0 || roomless.has(one.desktop.id)) continue
      const busySince = await this.#busySince(drain, one)
      if (busySince) {
        const detail = `commands or transfers are in flight since ${busySince.toISOString()}`
        note(one.desktop.id, { busySince, reason: { code: 'conflict', detail } })
        continue
      }
      chosen.push(one)
      free--
    }
    const waiting = judged.all.filter(({ status }) => status === 'waiting')
    const isStuck = free === drain.concurrency && waiting.every(({ desktopId }) => roomless.has(desktopId))
    if (isStuck) for (const [desktopId, reason] of roomless) note(desktopId, blocked(reason))
    return chosen
  }

  /** Why those have nowhere to go that have not. */
  async #roomless(ready: Ready[]) {
    const { hosts, images } = this.#options
    if (ready.length === 0) return new Map<string, NonNullable<DrainedDesktop['reason']>>()
    const places = await hosts.outlook(await needsOfAll(images, ready, hosts.mayRelay))
    return new Map(
      ready.flatMap(({ desktop }, at) => {
        const place = places[at]!
        return place instanceof Refusal ? [[desktop.id, reasonOf(place)] as const] : []
      }),
    )
  }

  /** Since when commands and transfers delay it; undefined if none do, or the grace is over. */
  async #busySince({ hostId, graceSecs, now }: DrainRow, { desktop, known }: Ready): Promise<Date | undefined> {
    if (desktop.state !== 'awake' || graceSecs === 0) return undefined
    const since = known.busySince === null ? now : new Date(known.busySince)
    if (now.getTime() - since.getTime() >= graceSecs * 1_000) return undefined
    const { id: desktopId } = desktop
    const observed = this.#options.links.command(
      hostId,
      'desktop.observe',
      { desktopId },
      { timeoutMs: observeTimeoutMs },
    )
    // The step itself fails if the host does not answer.
    const { calls } = await observed.catch(() => ({ calls: 0 }))
    return calls > 0 ? since : undefined
  }

  /** Stores what has changed, and the end of the drain. */
  async #store({ drain, known }: View, all: DrainedDesktop[], outcome: DrainRow['state'] | undefined): Promise<void> {
    const { leadership, hosts, log } = this.#options
    const changed = all.filter((row) => !isSame(known.get(row.desktopId), row))
    if (changed.length === 0 && !outcome) return
    const settled = await leadership.transaction(async (tx) => {
      await store.put(tx, drain.id, changed)
      if (!outcome || !(await store.settle(tx, drain, outcome))) return false
      await hosts.setDrain(tx, drain.hostId, null)
      return true
    })
    if (settled) log.info({ drain: drain.id, host: drain.hostId, outcome }, 'a drain has ended')
  }

  async #beginAll(term: Term, drain: DrainRow, chosen: Ready[]): Promise<void> {
    const begun = await Promise.all(chosen.map((one) => this.#begin(term, drain, one)))
    if (begun.length > 0) await this.#options.leadership.transaction((tx: Db) => store.put(tx, drain.id, begun))
  }

  /** Begins the next step of one desktop. A refusal is looked at again, and counts as a try. */
  async #begin(term: Term, drain: DrainRow, { desktop, known }: Ready): Promise<DrainedDesktop> {
    const row = begin(known)
    try {
      const operation = await this.#request(desktop, known)
      this.#await(drain.id, operation, term)
      return { ...row, operationId: operation.id }
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      const byOwner = error.code === 'conflict' || error.code === 'wrong_state'
      const failures = byOwner ? row.failures : row.failures + 1
      return {
        ...row,
        status: 'waiting',
        failures,
        reason: reasonOf(error),
        retryAt: new Date(drain.now.getTime() + 1_000),
      }
    }
  }

  async #request({ id, orgId }: DesktopRow, { action, cold }: DrainedDesktop): Promise<OperationRow> {
    const { moves, desktops } = this.#options
    const [requestId, requestedBy] = [newId(), 'drain' as const]
    const move = { to: null, requestedBy, requestId }
    if (action === 'live_move' || action === 'move') return moves.begin(id, move)
    // Its owner had it awake: it wakes on the other host.
    if (action === 'hibernate_and_move' && cold) return moves.begin(id, { ...move, mode: 'hibernate' })
    const params = {
      key: null,
      fingerprint: Buffer.alloc(0),
      requestId,
      requestedBy,
      expectedGeneration: null,
      discardMemory: false,
    }
    return (await desktops.request(wholeOrg(orgId), id, 'hibernate', params)).operation
  }

  /** Looks again when the operation has settled. */
  #await(id: string, operation: OperationRow, term: Term): void {
    if (this.#awaited.has(operation.id)) return
    this.#awaited.add(operation.id)
    const again = () => {
      this.#awaited.delete(operation.id)
      if (!term.signal.aborted) void this.look(id)
    }
    this.#options.engine.wait(operation, term.signal).then(again, again)
  }
}

/** Stored before the operation is requested: a leader that dies in between has counted the try. */
const begin = (known: DrainedDesktop): DrainedDesktop => ({
  ...known,
  status: 'working',
  operationId: null,
  tries: known.tries + 1,
  retryAt: null,
  busySince: null,
  reason: null,
})

const isSame = (before: DrainedDesktop | undefined, now: DrainedDesktop): boolean =>
  before !== undefined && JSON.stringify(before) === JSON.stringify(now)
