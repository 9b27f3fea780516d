// The links to agents that this replica holds, and the only way to send a host a command. Knows no desktop.
import { EventEmitter } from 'node:events'
import {
  type CommandName,
  type CommandPayload,
  type CommandResult,
  commandLabel,
  commands,
  factsOf,
  type GuestCallBody,
  isNotRunReason,
  Refusal,
  type RefusalCode,
  refusals,
  refusalWithCause,
} from '@dormouse/contract'
import { CallRefused, CallTimeout, LinkLost, type Peer } from '@dormouse/link'
import { currentSpan, type Log } from '@dormouse/process'
import type { ZodType } from 'zod'
import { firstIssue } from './validation.ts'

/** The commands that a confined host may get. None of them runs anything on the host. */
const confinedCommands: ReadonlySet<CommandName> = new Set([
  'host.inventory',
  'host.rejoin',
  'desktop.observe',
  'desktop.ensureDestroyed',
  'move.release',
  'move.abandon',
])

/** Commands that agents of earlier releases do not know, and that no operation sends: its steps have refusals of their own. */
const laterCommands: ReadonlySet<string> = new Set<CommandName>(['desktop.metrics'])

interface Events {
  linked: [hostId: string]
  unlinked: [hostId: string, reason: string]
}

/** Wraps every command. Passed in by the wiring, because the links know nothing of metrics and traces. */
export type CommandObserver = <T>(label: string, work: () => Promise<T>) => Promise<T>

export class Links extends EventEmitter<Events> {
  readonly #peers = new Map<string, Peer>()
  /** Hosts that get no commands. */
  readonly #withheld = new Set<string>()
  /** Hosts that get only commands that remove something or read something. */
  readonly #confined = new Set<string>()
  readonly #log: Log | undefined
  readonly #observe: CommandObserver

  constructor(log?: Log, observe: CommandObserver = (_name, work) => work()) {
    super()
    this.#log = log
    this.#observe = observe
  }

  /** Adds a host's link. A newer link replaces the older one, which is closed. */
  add(hostId: string, peer: Peer): void {
    // It closed while its hello was being answered. It must not replace a link that came later.
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

  /** Whether the host is linked and its commands are not withheld. */
  takesCommands(hostId: string): boolean {
    return this.has(hostId) && !this.#withheld.has(hostId)
  }

  /** Withholds commands from a host, or allows them again. Commands in flight continue. */
  withhold(hostId: string, none: boolean): void {
    if (none) this.#withheld.add(hostId)
    else this.#withheld.delete(hostId)
  }

  /** Restricts a host to commands that remove or read something, or ends the restriction. Commands in flight continue. */
  confine(hostId: string, confined: boolean): void {
    if (confined) this.#confined.add(hostId)
    else this.#confined.delete(hostId)
  }

  hostIds(): string[] {
    return [...this.#peers.keys()]
  }

  /**
   * Sends a host a command and validates the answer. A lost link or a timeout is `host_unreachable`: the outcome is unknown
   * until the command is retried. `result` is the shape of a call to a guest, whose command has none of its own.
   */
  async command<N extends CommandName>(
    hostId: string,
    name: N,
    payload: CommandPayload<N>,
    options: { signal?: AbortSignal; timeoutMs?: number; requestId?: string | undefined } = {},
    result: ZodType = commands[name].result,
  ): Promise<CommandResult<N>> {
    const peer = this.#peers.get(hostId)
    if (!peer) throw refusalWithCause('host_unreachable', 'this replica has no link to the host')
    if (this.#withheld.has(hostId))
      throw refusalWithCause('host_unreachable', 'commands to the host are withheld; an operator must trust it')
    if (this.#confined.has(hostId) && !confinedCommands.has(name))
      throw refusalWithCause(
        'host_unreachable',
        'the host was declared lost; it runs nothing until `dormouse admin host uncordon` takes it back',
      )
    const label = commandLabel(name, payload)
    return this.#observe(label, async () => {
      const { traceparent } = currentSpan() ?? {}
      const answer = await peer
        .call(name, payload, { ...options, ...(traceparent && { traceparent }) })
        .catch((error: unknown) => {
          throw asRefusal(label, payload, error)
        })
      return this.#validated<N>(hostId, label, answer, result)
    })
  }

  /** After an invalid answer the outcome is unknown, as after none. Retrying the command finds it out. */
  #validated<N extends CommandName>(hostId: string, label: string, answer: unknown, result: ZodType): CommandResult<N> {
    const { success, data, error } = result.safeParse(answer)
    if (success) return data as CommandResult<N>
    this.#log?.warn({ host: hostId, why: firstIssue(label, error) }, 'the answer of a host was invalid')
    throw refusalWithCause('host_unreachable', 'the host sent an invalid answer', { mayBeDone: true })
  }

  /** Closes the link of a host that was removed, or whose key was replaced. */
  async disconnect(hostId: string, reason: string): Promise<void> {
    await this.#peers.get(hostId)?.close(4001, reason)
  }
}

/** Whether a host may send this code, which may be any text. */
const isOfHosts = (code: string): code is RefusalCode =>
  Object.hasOwn(refusals, code) && factsOf(code as RefusalCode).from !== undefined

function asRefusal(label: string, payload: object, error: unknown): unknown {
  if (error instanceof CallRefused) {
    // Sent by the link itself, before the command began.
    if (error.code === 'too_many_calls') {
      return refusalWithCause('host_unreachable', 'the host has too many calls in flight')
    }
    // An agent of an older release does not know the call and has done nothing. Commands of operations have their own refusals
    // for this.
    if (error.code === 'unknown_call' && (!Object.hasOwn(commands, label) || laterCommands.has(label)))
      return refusalWithCause('host_outdated', inShort(error.detail))
    if (!isOfHosts(error.code)) {
      return refusalWithCause('hypervisor_failed', `the host refused with an unknown code: ${inShort(error.detail)}`)
    }
    // The message of a guest's file system is meant for the customer. Text with other characters is not such a message.
    if (error.code === 'file_refused' && /^[\p{L}\p{N} ,.'’()-]{1,200}$/u.test(error.detail))
      return new Refusal('file_refused', refusals.file_refused.detail({ error: inShort(error.detail) }))
    if (
      error.code === 'command_not_run' &&
      'body' in payload &&
      isNotRunReason(error.detail, namedIn(payload.body as GuestCallBody<'exec'>))
    )
      return new Refusal('command_not_run', error.detail)
    return refusalWithCause(error.code, inShort(error.detail))
  }
  if (error instanceof LinkLost || error instanceof CallTimeout) {
    const isSent = error instanceof CallTimeout || error.sent
    return refusalWithCause('host_unreachable', inShort(error.message), isSent ? { mayBeDone: true } : {})
  }
  return error
}

const namedIn = ({ command, cwd = null }: GuestCallBody<'exec'>) => ({ command, cwd })

/** A host's text goes into the database and to operators, so it is shortened and control characters are replaced. */
const inShort = (words: string): string =>
  words
    .slice(0, 1_000)
    .toWellFormed()
    .replaceAll(/\p{Cc}+/gu, ' ')
