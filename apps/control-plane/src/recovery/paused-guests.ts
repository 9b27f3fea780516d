// Hibernates awake desktops whose hosts report that their guests are paused: a guest has suspended itself, or something has
// paused it. Its memory is kept, and a wake brings it back.
import { newId, Refusal } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import type { Links } from '../agents/links.ts'
import type { Pool } from '../db/pool.ts'
import type { Desktops } from '../desktops/service.ts'
import type { DesktopRow } from '../desktops/store.ts'
import * as store from '../desktops/store.ts'
import { wholeOrg } from '../principals/scope.ts'
import { needsWake } from './rejoin.ts'

export interface PausedGuestsOptions {
  pool: Pool
  links: Links
  desktops: Desktops
  log: Log
}

const observeTimeoutMs = 5_000

export class PausedGuests {
  readonly #options: PausedGuestsOptions

  constructor(options: PausedGuestsOptions) {
    this.#options = options
  }

  /** Begins to hibernate it, unless something else has begun meanwhile. */
  async hibernate({ id, orgId, generation, hostId: host }: DesktopRow): Promise<void> {
    const { desktops, log } = this.#options
    try {
      await desktops.request(wholeOrg(orgId), id, 'hibernate', {
        key: null,
        fingerprint: Buffer.alloc(0),
        requestId: newId(),
        requestedBy: 'host',
        expectedGeneration: generation,
        discardMemory: false,
      })
      log.warn({ desktop: id, host }, 'the guest of an awake desktop is paused; the desktop is hibernated')
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      log.info({ err: error, desktop: id, host }, 'a desktop whose guest is paused could not be hibernated yet')
    }
  }

  /**
   * For a wake that was refused because its desktop is awake: whether to try it again. It is if the desktop is no longer so, or if
   * its host finds the guest paused: then it hibernates first.
   */
  async mayWake(id: string): Promise<boolean> {
    const { pool, links } = this.#options
    const [row] = await store.findMany(pool, [id])
    if (row?.state !== 'awake' || row.hostId === null) return true
    const ask = links.command(row.hostId, 'desktop.observe', { desktopId: id }, { timeoutMs: observeTimeoutMs })
    const seen = await ask.catch((error: unknown) => {
      if (!(error instanceof Refusal)) throw error
      return undefined
    })
    if (seen?.generation === row.generation && needsWake(seen)) {
      await this.hibernate(row)
      return true
    }
    const [now] = await store.findMany(pool, [id])
    return now?.state !== 'awake'
  }
}
