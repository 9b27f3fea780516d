// The screens of awake desktops for programs: their size, pointer and claim, and screenshots of them. Any replica with a link to
// the host can serve this. It counts as no activity.
import {
  goesBeyond,
  type PictureSpec,
  pictureMimeType,
  refuse,
  type ScreenJson,
  type ScreenshotQuery,
  type SeenScreen,
  settleMaxMs,
  settleQuietMs,
} from '@dormouse/contract'
import type { Links } from '../agents/links.ts'
import type { Pool } from '../db/pool.ts'
import { requireAwake } from '../desktops/require-awake.ts'
import type { Desktops } from '../desktops/service.ts'
import type { Customer } from '../principals/service.ts'
import { controlOf } from '../streams/store.ts'
import { isHumanActive } from './human.ts'
import { type Asker, type Looks, noWait, type Target, type Wait } from './looks.ts'
import { refuseRegion } from './outcomes.ts'

export interface ScreenReadsOptions {
  pool: Pool
  desktops: Desktops
  links: Links
  looks: Looks
}

export interface Screenshot {
  seen: SeenScreen
  picture: Buffer
  mimeType: string
}

export class ScreenReads {
  readonly #options: ScreenReadsOptions

  constructor(options: ScreenReadsOptions) {
    this.#options = options
  }

  /** The screen as it is now, without a picture. */
  async screen(caller: Customer, desktopId: string, asker: Asker): Promise<ScreenJson> {
    const { pool, looks } = this.#options
    const target = await this.#target(caller, desktopId)
    const { width, height, sequence, pointer } = await looks.at(target, noWait, asker)
    const held = await controlOf(pool, desktopId, target.generation)
    const claim = held && {
      holder: held.holder,
      since: held.heldSince?.toISOString() ?? null,
      until: held.heldUntil.toISOString(),
      human_active: await isHumanActive(pool, desktopId),
    }
    return { width, height, sequence, pointer, claim: claim ?? null }
  }

  /** A picture of the screen, once it is as the query waits for it. */
  async screenshot(caller: Customer, desktopId: string, query: ScreenshotQuery, asker: Asker): Promise<Screenshot> {
    const target = await this.#target(caller, desktopId)
    const { region, fit, format = 'png', quality } = query
    const spec: PictureSpec = { region, fit, format, quality }
    const { seen, picture } = await this.#options.looks.picture(target, waitOf(query), spec, asker)
    // The screen's size is known only now. It may have changed since the picture: then that was cut off.
    if (region && goesBeyond(region, seen)) refuseRegion('region', seen)
    return { seen, picture, mimeType: pictureMimeType[format] }
  }

  async #target(caller: Customer, desktopId: string): Promise<Target> {
    const { desktops, links } = this.#options
    const target = { desktopId, orgId: caller.orgId, ...requireAwake(await desktops.get(caller, desktopId)) }
    if (!links.takesCommands(target.hostId)) refuse('host_unreachable')
    return target
  }
}

const waitOf = ({ wait, after, quiet_ms, max_ms }: ScreenshotQuery): Wait => ({
  wait: wait ?? null,
  after: after ?? null,
  settle: { quietMs: quiet_ms ?? settleQuietMs, maxMs: max_ms ?? settleMaxMs },
})
