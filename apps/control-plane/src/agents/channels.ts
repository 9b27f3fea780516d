// Byte channels that an agent dials back for one transfer or one screen. Knows nothing of what the bytes are.
import { hash, randomBytes } from 'node:crypto'
import { Refusal } from '@dormouse/contract'
import { Channel, UpgradeRefusal, type Upgrades } from '@dormouse/link'

const channelPath = '/agent/v1/channels/'
/** How long an agent may take to dial back. */
const dialTimeoutMs = 10_000

interface Expected {
  hostId: string
  resolve: (channel: Channel) => void
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
  #open = 0

  /** Channels that are open now. */
  get open(): number {
    return this.#open
  }

  /**
   * Lets expected channels in. The name is the proof: it went over the host's own link, is good once and for a while, and
   * nobody else has it.
   */
  attach(upgrades: Upgrades): void {
    upgrades.add({
      path: (pathname) => pathname.startsWith(channelPath),
      authenticate: ({ url = '' }) => this.#spend(url.slice(channelPath.length)) ?? notExpected(),
      onSocket: (socket, expected) => {
        this.#open++
        const channel = new Channel(socket)
        channel.once('close', () => this.#open--)
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
    const late = () =>
      reject(new Refusal('host_unreachable', 'The desktop’s host did not open the transfer; try again.'))
    const timer = setTimeout(() => give(late), withinMs)
    // Whoever cancels no longer looks; a rejection must not end the process.
    promise.catch(() => undefined).finally(() => clearTimeout(timer))
    this.#expected.set(name, { hostId, resolve })
    return { token, channel: promise, cancel: () => give(late) }
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
