// Looks at the screen of an awake desktop: what it shows, and its picture. Knows no claim.
import { buffer } from 'node:stream/consumers'
import { type CommandPayload, type PictureSpec, Refusal, refuse, type SeenScreen } from '@dormouse/contract'
import type { Channel } from '@dormouse/link'
import type { Channels } from '../agents/channels.ts'
import type { Links } from '../agents/links.ts'

export interface Target {
  desktopId: string
  /** Its organisation: the host makes pictures of all in turns. */
  orgId: string
  hostId: string
  generation: number
}

/** The request, and when its client no longer waits. */
export interface Asker {
  requestId: string
  signal?: AbortSignal
}

export type Wait = Pick<CommandPayload<'screen.look'>, 'wait' | 'after' | 'settle'>

const marginMs = 10_000
const pictureMaxBytes = 64 * 1024 * 1024
export const noWait: Wait = { wait: null, after: null, settle: { quietMs: 300, maxMs: 5_000 } }

export class Looks {
  readonly #links: Links
  readonly #channels: Channels

  constructor(links: Links, channels: Channels) {
    this.#links = links
    this.#channels = channels
  }

  /** The screen, once it is as the caller waits for it. */
  async at(target: Target, wait: Wait, asker: Asker): Promise<SeenScreen> {
    return this.#ask(target, wait, null, asker).catch(throwAsGuest)
  }

  /** The same with its picture. */
  async picture(
    target: Target,
    wait: Wait,
    spec: PictureSpec,
    asker: Asker,
  ): Promise<{ seen: SeenScreen; picture: Buffer }> {
    const late = AbortSignal.timeout(longestMs(wait))
    const signal = AbortSignal.any([late, ...(asker.signal ? [asker.signal] : [])])
    const awaited = this.#channels.expect(target.hostId, longestMs(wait))
    const asked = this.#ask(target, wait, { spec, channel: awaited.token }, { ...asker, signal })
    try {
      const channel = await Promise.race([awaited.channel, asked.then(() => awaited.channel)])
      channel.end()
      const picture = await buffer(bounded(channel))
      return { seen: await asked, picture }
    } catch (error) {
      awaited.cancel()
      asked.catch(() => undefined)
      if (late.aborted) return refuse('guest_deadline', 'timed out waiting for the screenshot; retry')
      if (error instanceof Refusal) throw asGuestRefusal(error)
      return refuse('host_unreachable', 'the screenshot was interrupted; retry')
    }
  }

  #ask(
    { desktopId, orgId, hostId, generation }: Target,
    wait: Wait,
    picture: CommandPayload<'screen.look'>['picture'],
    asker: Asker,
  ): Promise<SeenScreen> {
    const payload = { desktopId, generation, ...wait, picture, share: orgId }
    return this.#links.command(hostId, 'screen.look', payload, {
      timeoutMs: longestMs(wait) + marginMs,
      ...asker,
    })
  }
}

const longestMs = ({ wait, settle }: Wait) => (wait === null ? 0 : settle.maxMs) + marginMs

/** A host that fails with a screen is no operation's failure: the customer gets a guest that does not respond. */
export const asGuestRefusal = (error: unknown): unknown =>
  error instanceof Refusal && error.code === 'hypervisor_failed'
    ? new Refusal('guest_unavailable', error.detail, error.extra)
    : error

const throwAsGuest = (error: unknown): never => {
  throw asGuestRefusal(error)
}

async function* bounded(channel: Channel): AsyncGenerator<Buffer> {
  let bytes = 0
  for await (const chunk of channel as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > pictureMaxBytes) refuse('guest_unavailable', 'the screenshot is too large; retry with `fit`')
    yield chunk
  }
}
