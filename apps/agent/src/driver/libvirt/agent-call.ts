// One call of a guest's agent, its failures in our words.
import { Refusal } from '@dormouse/contract'
import { CallTimeout, ConnectionLost, type GuestAgent, GuestAgentError } from '@dormouse/node-libvirt'
import { type AgentCall, AgentRefused } from '../../guest/qga-programs.ts'

const timeoutSecs = 5

/** Every failure to reach the agent is `guest_unavailable`; what the agent itself refuses is AgentRefused. */
export function agentCall(agent: () => GuestAgent): AgentCall {
  return async (execute, args) => {
    try {
      return await agent().command(args ? { execute, arguments: args } : { execute }, { timeoutSecs })
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
