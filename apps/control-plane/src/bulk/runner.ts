// Does what bulks have planned: begins operations as a caller would, some at once, and notes how they ended. All that it needs is
// in the database, so that another leader goes on.
import { newId, Refusal, refusals } from '@dormouse/contract'
import { eachApart, type Log, Semaphore } from '@dormouse/process'
import { inLane } from '../db/lanes.ts'
import type { Db, Pool } from '../db/pool.ts'
import type { Desktops } from '../desktops/service.ts'
import type { Leadership, Term } from '../leadership/leadership.ts'
import type { Engine } from '../operations/engine.ts'
import * as operations from '../operations/store.ts'
import { type Reach, scopeIn } from '../principals/scope.ts'
import type { BulkRow, Chosen, OpenDesktop } from './store.ts'
import * as store from './store.ts'

export interface RunnerOptions {
  pool: Pool
  leadership: Leadership
  engine: Pick<Engine, 'wait'>
  desktops: Pick<Desktops, 'request' | 'change'>
  log: Log
}

/** Desktops of one plan that are worked on at once. The operations themselves wait in the queue of their host. */
const atOnce = 64
const readAtOnce = 1_000
/** Transactions at once: of all plans, and of those of one organisation. Requests of others need the database, too. */
const turnsAtOnce = { inAll: 8, perOrg: 4 }

export class BulkRunner {
  readonly #options: RunnerOptions
  /** The plans that this leader works on. */
  readonly #running = new Map<string, Promise<void>>()
  readonly #turns = new Semaphore(turnsAtOnce.inAll, turnsAtOnce.perOrg)

  constructor(options: RunnerOptions) {
    this.#options = options
  }

  /** To be called every second by the leader, and when a plan was stored. Returns before the plans have settled. */
  async look(): Promise<void> {
    const { term } = this.#options.leadership
    if (!term) return
    for (const bulk of await store.live(this.#options.pool)) {
      if (this.#running.has(bulk.id)) continue
      const work = inLane('work', () => this.#work(term, bulk)).finally(() => this.#running.delete(bulk.id))
      this.#running.set(bulk.id, work)
    }
  }

  /** Resolves when no plan is worked on. */
  async settled(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running.values())
  }

  /** Never rejects. Whatever is left is found by the next look. */
  async #work(term: Term, bulk: BulkRow): Promise<void> {
    const { pool, leadership, log } = this.#options
    try {
      const next = await store.open(pool, bulk.id, readAtOnce)
      const failed = (err: unknown) => log.debug({ err, bulk: bulk.id }, 'a desktop of a bulk plan is tried again')
      let isRefused = false
      await eachApart(next, { atOnce, failed }, async (one) => {
        if (isRefused || term.signal.aborted) return
        if (await this.#one(term, bulk, one)) isRefused = true
      })
      if (next.length < readAtOnce && !isRefused && !term.signal.aborted)
        await leadership.transaction((tx) => store.settle(tx, bulk.id))
    } catch (err) {
      if (!term.signal.aborted) log.warn({ err, bulk: bulk.id }, 'a bulk plan was interrupted; it goes on in a moment')
    }
  }

  /** Whether the service refuses more for now, such as above the organisation's rate: the next look tries again. */
  async #one(term: Term, bulk: BulkRow, { desktopId, operationId }: OpenDesktop): Promise<boolean> {
    try {
      const end =
        bulk.action === 'label'
          ? await this.#label(bulk, desktopId)
          : await this.#operate(term, bulk, desktopId, operationId)
      if (end) await this.#end(bulk, end)
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      if (refusals[error.code].status === 503 || refusals[error.code].status === 429) return true
      const status = error.code === 'wrong_state' || error.code === 'not_found' ? 'skipped' : 'failed'
      await this.#end(bulk, { desktopId, status, code: error.code, detail: error.detail })
    }
    return false
  }

  /** The change and its note in the plan are one transaction. Refuses if the plan was cancelled. */
  async #label(bulk: BulkRow, desktopId: string): Promise<undefined> {
    const note = async (tx: Db) => {
      if (!(await store.ended(tx, bulk.id, succeeded(desktopId)))) throw cancelled()
    }
    const change = { labels: bulk.labels ?? {} }
    await this.#inTurn(bulk.orgId, () => this.#options.desktops.change(reachOf(bulk), desktopId, change, note))
  }

  /** How the operation ended; undefined if this replica leads no more. */
  async #operate(
    term: Term,
    bulk: BulkRow,
    desktopId: string,
    operationId: string | null,
  ): Promise<Chosen | undefined> {
    const { pool, engine } = this.#options
    let operation =
      operationId === null
        ? await this.#inTurn(bulk.orgId, () => this.#begin(bulk, desktopId))
        : await operations.read(pool, operationId)
    while (operation && !operations.isSettled(operation)) {
      operation = await engine.wait(operation, term.signal)
      if (term.signal.aborted) return undefined
    }
    // Its record was pruned, or the plan was cancelled meanwhile.
    if (!operation || operation.state === 'succeeded') return succeeded(desktopId)
    const code = operation.errorCode ?? 'operation_failed'
    return { desktopId, status: 'failed', code, detail: operation.error ?? null }
  }

  /** The operation and its note in the plan are one transaction. Refuses if the plan was cancelled. */
  async #begin(bulk: BulkRow, desktopId: string): Promise<operations.OperationRow> {
    const { desktops } = this.#options
    const wish = {
      ...{ key: null, fingerprint: Buffer.alloc(0), requestId: newId() },
      ...{ expectedGeneration: null, discardMemory: false },
    }
    const note = async (tx: Db, id: string, details?: Record<string, unknown> | null) => {
      if (!(await store.began(tx, bulk.id, id, String(details?.operation_id)))) throw cancelled()
    }
    const { action } = bulk
    const { operation } = await desktops.request(
      reachOf(bulk),
      desktopId,
      action as Exclude<typeof action, 'label'>,
      wish,
      note,
    )
    return operation
  }

  async #end(bulk: BulkRow, end: Chosen): Promise<void> {
    const { leadership } = this.#options
    await this.#inTurn(bulk.orgId, () => leadership.transaction((tx) => store.ended(tx, bulk.id, end)))
  }

  #inTurn<T>(orgId: string, work: () => Promise<T>): Promise<T> {
    return this.#turns.run(work, { share: orgId })
  }
}

/** It changes nothing of the desktop's row, which says that already. */
const cancelled = () => new Refusal('superseded', 'the plan was cancelled')

/** A desktop that its credential no longer reaches does not exist for the plan. */
const reachOf = ({ orgId, within, withinDesktop }: BulkRow): Reach => ({
  orgId,
  scope: scopeIn({ selector: within, desktopId: withinDesktop }),
})

const succeeded = (desktopId: string): Chosen => ({ desktopId, status: 'succeeded', code: null, detail: null })
