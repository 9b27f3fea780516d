/**
 * The QEMU guest agent of one domain. libvirt takes one call at a time per domain, so ours wait in line; calls of other
 * domains and of the domain's monitor are not held up. Knows the agent's envelope, not its commands.
 */
import type { Calls } from './calls.ts'
import { errorCode } from './constants.ts'
import { agentTurn, type Domain } from './domain.ts'
import { LibvirtError } from './errors.ts'

export interface AgentCommand {
  execute: string
  arguments?: Record<string, unknown>
}

/** `unresponsive` no agent answers now · `absent` the domain has no agent channel · `stopped` it does not run · `refused` the agent said no. */
export type GuestAgentReason = 'unresponsive' | 'absent' | 'stopped' | 'refused'

export class GuestAgentError extends Error {
  override name = 'GuestAgentError'
  readonly reason: GuestAgentReason
  /** What the agent or libvirt said. */
  readonly description: string

  constructor(reason: GuestAgentReason, command: string, cause: LibvirtError) {
    const description = reason === 'refused' ? cause.message.replace(refusal, '') : cause.message
    super(`guest agent ${reason} (${command}): ${description}`, { cause })
    this.reason = reason
    this.description = description
  }
}

/** libvirt reports the agent's own errors as an internal error that begins so. */
const refusal = /^.*unable to execute QEMU agent command '[^']*'(: )?/

/** Beyond the agent's own time: libvirt first waits up to five seconds for the agent to say that it is there. */
const graceMs = 10_000

export class GuestAgent {
  readonly #calls: Calls
  readonly #domain: Domain

  constructor(calls: Calls, domain: Domain) {
    this.#calls = calls
    this.#domain = domain
  }

  /**
   * Gives the agent a command and answers its parsed `return`. Throws GuestAgentError, or CallTimeout where libvirt
   * itself does not answer. `timeoutSecs` is the agent's time for this command.
   */
  async command(command: AgentCommand, { timeoutSecs = 10 } = {}): Promise<unknown> {
    const args = { domain: this.#domain.ref, command: JSON.stringify(command), timeoutSecs, flags: 0 }
    const options = { turn: agentTurn(this.#domain.uuid), timeoutMs: timeoutSecs * 1000 + graceMs }
    try {
      const { answer } = await this.#calls.call('guest', 'domainAgentCommand', args, options)
      return returnOf(answer)
    } catch (error) {
      const reason = error instanceof LibvirtError ? reasonOf(error) : undefined
      throw reason ? new GuestAgentError(reason, command.execute, error as LibvirtError) : error
    }
  }

  /** How long libvirt waits for a mute agent before each command, 5 s by default. Holds until the domain stops. */
  async setResponseTimeout(timeoutSecs: number): Promise<void> {
    const args = { domain: this.#domain.ref, timeoutSecs, flags: 0 }
    await this.#calls.call('guest', 'domainAgentSetResponseTimeout', args, { turn: agentTurn(this.#domain.uuid) })
  }
}

/** Undefined where it is none: libvirt hands on what the guest said, and a guest's word is untrusted. */
function returnOf(answer: string | undefined): unknown {
  try {
    return (JSON.parse(answer ?? '{}') as { return?: unknown } | null)?.return
  } catch {
    return undefined
  }
}

function reasonOf({ code, message }: LibvirtError): GuestAgentReason | undefined {
  if (code === errorCode.agentUnresponsive || code === errorCode.agentUnsynced) return 'unresponsive'
  if (code === errorCode.argumentUnsupported) return 'absent'
  if (code === errorCode.operationInvalid || code === errorCode.noDomain) return 'stopped'
  return refusal.test(message) ? 'refused' : undefined
}
