// Byte channels that an agent dials back for one transfer or one screen. Knows nothing of what the bytes are.
import { hash, randomBytes } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { refusalWithCause } from '@dormouse/contract'
import { Channel, ChannelLost, UpgradeRefusal, type Upgrades } from '@dormouse/link'

const channelPath = '/agent/v1/channels/'
/** How long an agent may take to dial back. */
const dialTimeoutMs = 10_000

interface Expected {
  hostId: string
  resolve: (channel: Channel) => void
  cancel: () => void
}

/** A channel that one host has been asked for. */
export interface Awaited {
  /** What the host names when it dials back: random, good once. */
  token: string
  channel: Promise<Channel>
  /** Nobody waits for it any more. */
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
   * Lets expected channels in. The name is the proof: it went over the host's own link, is good once and for a while, and
   * nobody else has it.
   */
  attach(upgrades: Upgrades, prove: (request: IncomingMessage, hostId: string) => void): void {
    upgrades.add({
      path: (pathname) => pathname.startsWith(channelPath),
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

  /** Expects a channel from one host; refuses after that time with `host_unreachable`. */
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
    // Whoever cancels no longer looks; a rejection must not end the process.
    promise.catch(() => undefined).finally(() => clearTimeout(timer))
    const cancel = () => give(late)
    this.#expected.set(name, { hostId, resolve, cancel })
    return { token, channel: promise, cancel }
  }

  /** Ends a host's channels, and expects no more of it, where it may not be spoken to any more. */
  cut(hostId: string): void {
    for (const expected of [...this.#expected.values()]) if (expected.hostId === hostId) expected.cancel()
    for (const [channel, of] of this.#open) if (of === hostId) channel.destroy(new ChannelLost(1001, 'cut'))
  }

  #spend(token: string): Expected | undefined {
    const name = nameOf(token)
    const expected = this.#expected.get(name)
    this.#expected.delete(name)
    return expected
  }
}

/** Looked up by its hash: how long that takes tells nothing of the token. */
const nameOf = (token: string): string => hash('sha256', token, 'base64')

const notExpected = () => new UpgradeRefusal(404, 'no such channel is expected')
