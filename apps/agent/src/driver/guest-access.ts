// How guests are reached from their host: the raw connections that a hypervisor gives. What is sent over them, and which
// of them is used, is decided in the rooms above.

/** Calls the guest agent. Throws a `guest_unavailable` refusal where it cannot be reached, AgentRefused where it refuses. */
export type AgentCall = (execute: string, args?: Record<string, unknown>) => Promise<unknown>

export class AgentRefused extends Error {
  override readonly name = 'AgentRefused'
}

/** A port that only the host can open, or the guest's network address; `localAddress` is the host's own on that network. */
export type SshAddress = { path: string } | { host: string; port: number; localAddress: string }
