// One call of a guest's agent, its failures in our words.
import { Refusal } from '@dormouse/contract'
import { CallTimeout, ConnectionLost, type GuestAgent, GuestAgentError } from '@dormouse/node-libvirt'
import { type AgentCall, AgentRefused } from '../../guest/qga-programs.ts'

/** A mute agent is found out soon; the guest's disk may take its time. */
const timeoutSecs = 2
const fileTimeoutSecs = 10

/** Every failure to reach the agent is `guest_unavailable`; what the agent itself refuses is AgentRefused. */
export function agentCall(agent: () => GuestAgent): AgentCall {
  return async (execute, args) => {
    try {
      const patience = execute.startsWith('guest-file-') ? fileTimeoutSecs : timeoutSecs
      return await agent().command(args ? { execute, arguments: args } : { execute }, { timeoutSecs: patience })
    } catch (error) {
      throw translated(error)
    }
  }
}

function translated(error: unknown): unknown {
  if (error instanceof GuestAgentError && error.reason === 'refused') return new AgentRefused(error.description)
  if (error instanceof GuestAgentError || error instanceof CallTimeout || error instanceof ConnectionLost) {
    const refusal = new Refusal('guest_unavailable', 'the guest’s agent does not answer')
    refusal.cause = error
    return refusal
  }
  return error
}
