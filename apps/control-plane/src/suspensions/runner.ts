// Hibernates what is awake of suspended organisations. That nothing of them wakes is no matter of this module.
import { newId, Refusal } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import type { Pool } from '../db/pool.ts'
import type { Desktops } from '../desktops/service.ts'
import { wholeOrg } from '../principals/scope.ts'
import { Rotation } from '../reconcile/rotation.ts'

export interface SuspensionsOptions {
  pool: Pool
  desktops: Pick<Desktops, 'request'>
  log: Log
}

/** Hibernations that begin in one look. */
const mostAtOnce = 25
/** After an attempt that failed, the next one waits for this long. */
const againAfterMs = 60_000

interface Awake {
  id: string
  orgId: string
  generation: number
}

export class Suspensions {
  readonly #options: SuspensionsOptions
  readonly #rotation = new Rotation()
  /** When each desktop that is still awake was tried. */
  #tried = new Map<string, number>()

  constructor(options: SuspensionsOptions) {
    this.#options = options
  }

  /** To be called every second, by the leader. */
  async look(): Promise<void> {
    const { rows } = await this.#options.pool.query<Awake>({
      name: 'suspensions-awake',
      text: `select d.id, d.org_id as "orgId", d.generation from organisations o
             join desktops d on d.org_id = o.id and d.state = 'awake'
             where o.suspended_at is not null order by d.id limit 1000`,
    })
    const now = performance.now()
    this.#tried = new Map(rows.flatMap(({ id }) => (this.#tried.has(id) ? [[id, this.#tried.get(id)!]] : [])))
    const due = rows.filter(({ id }) => now - (this.#tried.get(id) ?? -againAfterMs) >= againAfterMs)
    const chosen = this.#rotation.take(due, mostAtOnce, ({ id }) => id)
    await Promise.all(chosen.map((row) => this.#hibernate(row)))
  }

  async #hibernate({ id, orgId, generation }: Awake): Promise<void> {
    const { desktops, log } = this.#options
    this.#tried.set(id, performance.now())
    try {
      await desktops.request(wholeOrg(orgId), id, 'hibernate', {
        key: null,
        fingerprint: Buffer.alloc(0),
        requestId: newId(),
        requestedBy: 'operator',
        expectedGeneration: generation,
        discardMemory: false,
      })
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      log.info({ err: error, desktop: id }, 'a desktop of a suspended organisation could not be hibernated yet')
    }
  }
}
