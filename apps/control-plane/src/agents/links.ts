// The links to agents that this replica holds, and the one way to ask a host for something. No word of desktops.
import { EventEmitter } from 'node:events'
import {
  type CommandName,
  type CommandPayload,
  type CommandResult,
  commands,
  type RefusalCode,
  refusalWithCause,
} from '@dormouse/contract'
import { CallRefused, CallTimeout, LinkLost, type Peer } from '@dormouse/link'
import type { Log } from '@dormouse/process'
import { wrongWith } from './understood.ts'

interface Events {
  linked: [hostId: string]
  unlinked: [hostId: string, reason: string]
}

export class Links extends EventEmitter<Events> {
  readonly #peers = new Map<string, Peer>()
  /** Hosts that get no commands. */
  readonly #withheld = new Set<string>()
  readonly #log: Log | undefined

  constructor(log?: Log) {
    super()
    this.#log = log
  }

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

  /** Whether the host is linked, and is one that commands are sent to. */
  takesCommands(hostId: string): boolean {
    return this.has(hostId) && !this.#withheld.has(hostId)
  }

  /** Sends a host no commands from now on, or sends them again. What is under way goes on. */
  withhold(hostId: string, none: boolean): void {
    if (none) this.#withheld.add(hostId)
    else this.#withheld.delete(hostId)
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
    if (!peer) throw refusalWithCause('host_unreachable', 'this replica has no link to the host')
    if (this.#withheld.has(hostId))
      throw refusalWithCause('host_unreachable', 'the host is withheld: an operator has to trust its epoch')
    const answer = await peer.call(name, payload, options).catch((error: unknown) => {
      throw asRefusal(error)
    })
    return this.#understood(hostId, name, answer)
  }

  /** An answer that cannot be read tells as little as none: asking again is how the outcome becomes known. */
  #understood<N extends CommandName>(hostId: string, name: N, answer: unknown): CommandResult<N> {
    const { success, data, error } = commands[name].result.safeParse(answer)
    if (success) return data as CommandResult<N>
    this.#log?.warn({ host: hostId, why: wrongWith(name, error) }, 'a host’s answer was not understood')
    throw refusalWithCause('host_unreachable', 'the host gave an answer that cannot be read')
  }

  /** Cuts a host’s link, for a host that is removed or whose word cannot be trusted. */
  async cut(hostId: string, reason: string): Promise<void> {
    await this.#peers.get(hostId)?.close(4001, reason)
  }
}

/** What a host may say of its own: whether we lead, and who may ask for what, is not for it to say. */
const hostsMayRefuse: ReadonlySet<string> = new Set<RefusalCode>([
  'command_not_run',
  'disk_missing',
  'file_not_found',
  'guest_deadline',
  'guest_silent',
  'guest_unavailable',
  'host_disk_full',
  'host_unreachable',
  'hypervisor_failed',
  'image_unavailable',
  'invalid_request',
  'is_directory',
  'memory_image_damaged',
  'memory_image_missing',
  'memory_lost',
  'no_room',
  'no_space',
  'not_awake',
  'not_directory',
  'not_regular',
  'payload_too_large',
  'permission_denied',
  'read_only',
  'stale_epoch',
  'stale_turn',
  'superseded',
  'symlink_loop',
  'unknown_desktop',
])

function asRefusal(error: unknown): unknown {
  if (error instanceof CallRefused) {
    // The link's own word, said before anything was begun.
    if (error.code === 'too_many_calls') {
      return refusalWithCause('host_unreachable', 'the host has too many calls under way')
    }
    if (!hostsMayRefuse.has(error.code)) {
      return refusalWithCause(
        'hypervisor_failed',
        `the host refused with a code that is not known here: ${inShort(error.detail)}`,
      )
    }
    return refusalWithCause(error.code as RefusalCode, inShort(error.detail))
  }
  if (error instanceof LinkLost || error instanceof CallTimeout) {
    return refusalWithCause('host_unreachable', inShort(error.message))
  }
  return error
}

/** A host's words go into the database and to operators: of a length, and of characters that both can take. */
const inShort = (words: string): string =>
  words
    .slice(0, 1_000)
    .toWellFormed()
    .replaceAll(/\p{Cc}+/gu, ' ')
