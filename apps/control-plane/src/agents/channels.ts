// Byte channels that an agent dials back, each for one transfer or one screen. Knows nothing of what the bytes mean.
import { hash, randomBytes } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { refusalWithCause } from '@dormouse/contract'
import { Channel, ChannelLost, channelMaxFrameBytes, UpgradeRefusal, type Upgrades } from '@dormouse/link'

const channelPath = '/agent/v1/channels/'
/** How long an agent may take to dial back. */
const dialTimeoutMs = 10_000

interface Expected {
  hostId: string
  resolve: (channel: Channel) => void
  cancel: () => void
}

/** A channel that one host was told to dial back. */
export interface Awaited {
  /** Identifies the channel when the host dials back: random, valid once. */
  token: string
  channel: Promise<Channel>
  /** Stops waiting for it. */
  cancel(): void
}

export class Channels {
  readonly #expected = new Map<string, Expected>()
  readonly #open = new Map<Channel, string>()

  /** Channels that are open now. */
  get open(): number {
    return this.#open.size
  }

  /**
   * Accepts expected channels. Their token authenticates them: it was sent over the host's own link, expires, and is valid
   * once.
   */
  attach(upgrades: Upgrades, prove: (request: IncomingMessage, hostId: string) => void): void {
    upgrades.add({
      path: (pathname) => pathname.startsWith(channelPath),
      maxFrameBytes: channelMaxFrameBytes,
      knows: ({ url = '' }) => this.#expected.has(nameOf(url.slice(channelPath.length))),
      authenticate: ({ url = '' }) => this.#spend(url.slice(channelPath.length)) ?? notExpected(),
      onSocket: (socket, expected, request) => {
        prove(request, expected.hostId)
        const channel = new Channel(socket)
        this.#open.set(channel, expected.hostId)
        channel.once('close', () => this.#open.delete(channel))
        expected.resolve(channel)
      },
    })
  }

  /** Expects a channel from one host. Rejects with `host_unreachable` after `withinMs`. */
  expect(hostId: string, withinMs = dialTimeoutMs): Awaited {
    const token = randomBytes(24).toString('base64url')
    const name = nameOf(token)
    const { promise, resolve, reject } = Promise.withResolvers<Channel>()
    const give = (act: () => void) => {
      this.#expected.delete(name)
      act()
    }
    const late = () => reject(refusalWithCause('host_unreachable', 'the host did not dial back in time'))
    const timer = setTimeout(() => give(late), withinMs)
    // A caller that cancels no longer awaits it, and an unhandled rejection would end the process.
    promise.catch(() => undefined).finally(() => clearTimeout(timer))
    const cancel = () => give(late)
    this.#expected.set(name, { hostId, resolve, cancel })
    return { token, channel: promise, cancel }
  }

  /** Closes a host's channels and cancels its expected ones: the host was removed. */
  disconnect(hostId: string): void {
    for (const expected of [...this.#expected.values()]) if (expected.hostId === hostId) expected.cancel()
    for (const [channel, of] of this.#open)
      if (of === hostId) channel.destroy(new ChannelLost(1001, 'the host was removed'))
  }

  #spend(token: string): Expected | undefined {
    const name = nameOf(token)
    const expected = this.#expected.get(name)
    this.#expected.delete(name)
    return expected
  }
}

/** Tokens are looked up by their hash, so that timing reveals nothing. */
const nameOf = (token: string): string => hash('sha256', token, 'base64')

const notExpected = () => new UpgradeRefusal(404, 'no such channel is expected')
