// The links to agents that this replica holds, and the one way to ask a host for something. No word of desktops.
import { EventEmitter } from 'node:events'
import {
  type CommandName,
  type CommandPayload,
  type CommandResult,
  commands,
  Refusal,
  refusalCode,
  refuse,
} from '@dormouse/contract'
import { CallRefused, CallTimeout, LinkLost, type Peer } from '@dormouse/link'

interface Events {
  linked: [hostId: string]
  unlinked: [hostId: string, reason: string]
}

export class Links extends EventEmitter<Events> {
  readonly #peers = new Map<string, Peer>()

  /** Takes a host's link; a newer one replaces the older, which is closed. */
  add(hostId: string, peer: Peer): void {
    // Gone while its hello was answered: it must not take the place of the link that came after it.
    if (peer.closed) return
    const older = this.#peers.get(hostId)
    this.#peers.set(hostId, peer)
    void older?.close(4000, 'replaced by a newer link')
    peer.on('close', (reason) => {
      if (this.#peers.get(hostId) !== peer) return
      this.#peers.delete(hostId)
      this.emit('unlinked', hostId, reason)
    })
    this.emit('linked', hostId)
  }

  has(hostId: string): boolean {
    return this.#peers.has(hostId)
  }

  hostIds(): string[] {
    return [...this.#peers.keys()]
  }

  /**
   * Asks a host and checks its answer against the contract. A lost link or a missed deadline is `host_unreachable`:
   * the outcome is unknown, and asking again is how it becomes known.
   */
  async command<N extends CommandName>(
    hostId: string,
    name: N,
    payload: CommandPayload<N>,
    options: { signal?: AbortSignal; timeoutMs?: number; requestId?: string | undefined } = {},
  ): Promise<CommandResult<N>> {
    const peer = this.#peers.get(hostId)
    if (!peer) return refuse('host_unreachable', 'The desktop’s host is out of reach; try again when it is back.')
    try {
      const answer = await peer.call(name, payload, options)
      return commands[name].result.parse(answer) as CommandResult<N>
    } catch (error) {
      throw asRefusal(error)
    }
  }

  /** Cuts a host’s link, for a host that is removed or whose word cannot be trusted. */
  async cut(hostId: string, reason: string): Promise<void> {
    await this.#peers.get(hostId)?.close(4001, reason)
  }
}

function asRefusal(error: unknown): unknown {
  if (error instanceof CallRefused) {
    // The link's own word, said before anything was begun.
    if (error.code === 'too_many_calls') {
      return new Refusal('host_unreachable', 'The desktop’s host has too much to do; try again.')
    }
    const code = refusalCode.safeParse(error.code)
    return code.success ? new Refusal(code.data, sentence(error.detail)) : error
  }
  if (error instanceof LinkLost || error instanceof CallTimeout) {
    return new Refusal('host_unreachable', 'The link to the desktop’s host was lost; try again when it is back.')
  }
  return error
}

/** A host's words go into the database and to customers: of a length, and of characters that both can take. */
const sentence = (words: string): string =>
  words
    .toWellFormed()
    .replaceAll(/\p{Cc}+/gu, ' ')
    .slice(0, 1_000)
