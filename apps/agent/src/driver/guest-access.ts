// How guests are reached from their host: the raw connections that a hypervisor gives. What is sent over them, and which
// of them is used, is decided in the modules above.

import { setTimeout as sleep } from 'node:timers/promises'
import type { DesktopId } from '@dormouse/contract'

/** A guest's network device, and the only address that it can use. */
export interface GuestAddress {
  mac: string
  ip: string
}

/** Calls the guest agent. Throws a `guest_unavailable` refusal if it cannot be reached, AgentRefused if it refuses. */
export type AgentCall = (execute: string, args?: Record<string, unknown>) => Promise<unknown>

export class AgentRefused extends Error {
  override readonly name = 'AgentRefused'
}

/**
 * What a guest gets when its memory was restored. Each time it also gets the time and new randomness: it may have the clock and
 * the random numbers of another moment, or of another guest.
 */
export interface WakeNews {
  /** Absolute paths whose folder exists; without spaces. Without `bytes`, the file is removed. */
  files?: readonly { path: string; mode?: number; bytes?: Buffer }[]
  hostName?: string
}

export interface GuestAccess {
  agent: AgentCall
  activity: GuestActivity
  /** The sockets of the ports that our program serves in the guest: for SSH, and for `WakeNews`. */
  sshSocket: () => Promise<string>
  wakeSocket: () => Promise<string>
}

/**
 * `interrupted`: the guest was restarted or saved, or has ended, so its connections are of no use. `kept`: it was saved, and its
 * process stays as a warm copy, so that a connection without work in flight can be used again. `agent-lost`: its guest agent has
 * disconnected. `killed`: its process is about to be ended.
 */
export interface GuestEvent {
  type: 'guest'
  desktopId: DesktopId
  change: 'interrupted' | 'kept' | 'agent-lost' | 'killed'
}

export interface GuestActivity {
  /** Whether its process was stopped from outside: then nothing in it continues until it is resumed. */
  frozen(): boolean
  /** Whether the guest runs or wants to, over the next `overMs`. False if that is not known. */
  busy(overMs: number): Promise<boolean>
  /** Whether it wants neither a processor nor the disk over that time. False if that is not known. */
  idle(overMs: number): Promise<boolean>
}

/** For a guest whose activity is not known. */
export const unknownActivity: GuestActivity = {
  frozen: () => false,
  busy: async () => false,
  idle: (overMs) => sleep(overMs, false),
}
