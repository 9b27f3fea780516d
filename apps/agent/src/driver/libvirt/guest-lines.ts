// The lines to the guests of this host: an SSH connection per desktop, kept for as long as both ends like, with a spare
// shell on it, and the turns at its guest agent.
import type { DesktopId } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import { type SshAccess, SshFirstTransport } from '../../guest/ssh-first.ts'
import { CallQueue } from '../../mechanics/call-queue.ts'
import { SshConnection } from '../../ssh/connection.ts'
import { SshKeys } from '../../ssh/keys.ts'
import { WarmShell } from '../../ssh/warm-shell.ts'
import type { SshAddress } from '../guest-access.ts'
import type { GuestActivity } from '../guest-activity.ts'
import type { GuestTransport } from '../guest-transport.ts'

interface GuestWays {
  agent: GuestTransport
  pulse: GuestActivity
  door: () => Promise<SshAddress | undefined>
}

export class GuestLines {
  readonly #keys: SshKeys
  readonly #log: Log
  readonly #lines = new Map<DesktopId, SshAccess>()
  readonly #turns = new Map<DesktopId, CallQueue>()

  constructor(keysDir: string, log: Log) {
    this.#keys = new SshKeys(keysDir)
    this.#log = log
  }

  /** The guest over SSH where there is a way in for that; else over its agent. */
  guest(desktopId: DesktopId, by: GuestWays): GuestTransport {
    return new SshFirstTransport(this.#lines.get(desktopId) ?? this.#make(desktopId, by), by.agent)
  }

  /** Whose turn it is at the desktop's guest agent. */
  turns(desktopId: DesktopId): CallQueue {
    const turns = this.#turns.get(desktopId) ?? new CallQueue()
    this.#turns.set(desktopId, turns)
    return turns
  }

  /** The guest has begun anew, or is not here any more: whatever was under way in it is over. */
  ended(desktopId: DesktopId): void {
    this.#lines.get(desktopId)?.connection.close()
  }

  /** The guest may be in trouble: its connection is looked at. */
  doubt(desktopId: DesktopId): void {
    this.#lines.get(desktopId)?.connection.probe()
  }

  /** The desktop's process is gone: what still holds its line must not take the port from the next. */
  drop(desktopId: DesktopId): void {
    this.#lines.get(desktopId)?.connection.end()
    this.#lines.delete(desktopId)
    this.#turns.delete(desktopId)
  }

  /** The desktop is gone for good. */
  async forget(desktopId: DesktopId): Promise<void> {
    this.drop(desktopId)
    await this.#keys.forget(desktopId)
  }

  close(): void {
    for (const { connection } of this.#lines.values()) connection.end()
  }

  #make(desktopId: DesktopId, { agent, pulse: activity, door: address }: GuestWays) {
    const connection = new SshConnection({ desktopId, agent, activity, address, keys: this.#keys, log: this.#log })
    const kept = { connection, warmShell: new WarmShell(connection) }
    this.#lines.set(desktopId, kept)
    return kept
  }
}
