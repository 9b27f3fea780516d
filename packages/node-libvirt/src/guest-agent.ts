/**
 * The QEMU guest agent of one domain. libvirt takes one call at a time per domain, so calls queue here; other domains and
 * the domain's monitor are not delayed. Knows the agent's envelope, not its commands.
 */
import type { Calls } from './calls.ts'
import { errorCode } from './constants.ts'
import { agentTurn, type Domain } from './domain.ts'
import { LibvirtError } from './errors.ts'

export interface AgentCommand {
  execute: string
  arguments?: Record<string, unknown>
}

/** `unresponsive`: no agent responds · `absent`: the domain has no agent channel · `stopped`: it does not run · `refused`: by the agent. */
export type GuestAgentReason = 'unresponsive' | 'absent' | 'stopped' | 'refused'

export class GuestAgentError extends Error {
  override name = 'GuestAgentError'
  readonly reason: GuestAgentReason
  /** The agent's or libvirt's message. */
  readonly description: string

  constructor(reason: GuestAgentReason, command: string, cause: LibvirtError) {
    const description = reason === 'refused' ? cause.message.replace(refusal, '') : cause.message
    super(`guest agent ${reason} (${command}): ${description}`, { cause })
    this.reason = reason
    this.description = description
  }
}

/** libvirt reports the agent's errors as internal errors with this prefix. */
const refusal = /^.*unable to execute QEMU agent command '[^']*'(: )?/

/** On top of the agent's timeout: libvirt first waits up to five seconds for the agent to respond at all. */
const graceMs = 10_000

export class GuestAgent {
  readonly #calls: Calls
  readonly #domain: Domain

  constructor(calls: Calls, domain: Domain) {
    this.#calls = calls
    this.#domain = domain
  }

  /**
   * Runs a command and returns its parsed `return`. Throws GuestAgentError, or CallTimeout if libvirt itself does not
   * respond. `timeoutSecs` limits the agent's time for this command.
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

  /** How long libvirt waits for an unresponsive agent before each command; 5 s by default. Applies until the domain stops. */
  async setResponseTimeout(timeoutSecs: number): Promise<void> {
    const args = { domain: this.#domain.ref, timeoutSecs, flags: 0 }
    await this.#calls.call('guest', 'domainAgentSetResponseTimeout', args, { turn: agentTurn(this.#domain.uuid) })
  }
}

/** Undefined if there is none. libvirt passes on what the guest sent, which is not trusted. */
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
