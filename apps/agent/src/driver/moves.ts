// The hypervisor's part in moves between hosts. Mechanical like the rest of the driver: what moves, when, and if it runs in
// the end is decided above. What the other host sends is checked here before the hypervisor gets it.
import type { Duplex } from 'node:stream'
import type { DesktopId, DesktopSpec, MoveTraits } from '@dormouse/contract'
import type { Mark } from './mark.ts'

/** Gives away one end of a stream that the hypervisor has opened, to be joined with the stream of that name on the other host. */
export type GiveStream = (name: string, near: Duplex) => void

export interface MoveProgress {
  doneBytes: number
  totalBytes: number
  /** How often as many bytes as the guest's memory has were sent of it. What changes meanwhile is sent again. */
  memoryRounds: number
}

/** A running desktop that is about to leave. Its guest runs on until `send`. */
export interface Leaving {
  /** For the new host's `enter`. */
  readonly handoff: string
  /**
   * Sends disks and memory. When it returns, the guest is paused here with all that it has. If it fails, and when `signal`
   * aborts, the guest runs on by itself, and this is of no use any more.
   */
  send(handoff: string, give: GiveStream, signal: AbortSignal): Promise<string>
  /** How far `send` has come; undefined if that is not known. */
  progress(): Promise<MoveProgress | undefined>
  /** Ends the desktop here. */
  confirm(handoff: string): Promise<void>
  /** The guest goes on here. */
  cancel(): Promise<void>
  /** Releases the hypervisor's job. A guest that is paused by `send` stays so. */
  close(): void
}

/** A desktop that is about to arrive with its memory. Nothing of it runs. */
export interface Entering {
  /** For the old host's `send`. */
  readonly handoff: string
  /** The end that takes the bytes of that stream. */
  open(name: string): Promise<Duplex>
  /** All is here, and the disk is synced: the domain exists, paused. */
  finish(handoff: string): Promise<string>
  /** Ends a move that waits. One that has finished stays, paused. */
  close(): void
}

export interface Moves {
  /** What another host must have; `memoryPath` is the saved memory that moves along. */
  traits(desktopId: DesktopId, memoryPath: string | undefined): Promise<Omit<MoveTraits, 'memoryBytes'>>
  /** Whether this host has an image with the same files. */
  hasImage(imageDigest: string): Promise<boolean>
  /** Why this host cannot take it, whatever images it has; null if it can. */
  misfit(traits: MoveTraits): Promise<string | null>
  leave(desktopId: DesktopId): Promise<Leaving>
  /** Makes a new disk on this host's copy of the image, and a domain that waits for disk and memory. */
  enter(arrival: Arrival, handoff: string): Promise<Entering>
  /** What a desktop that has arrived can get while it runs already. A failure is logged: it works without. */
  furnish(desktopId: DesktopId): Promise<void>
  /** The desktop's move has ended: removes what a process that has died may have left of it. */
  forget(desktopId: DesktopId): Promise<void>

  /** The disk's file; nothing writes to it while the desktop sleeps. */
  diskPath(desktopId: DesktopId): string
  diskBytes(desktopId: DesktopId): Promise<number>
  /** Where a disk that is copied to this host is written until it is whole. */
  arrivingDiskPath(desktopId: DesktopId): Promise<string>
  /** Checks that file, puts it on this host's copy of the image and in place, synced. Does nothing if that was done. */
  adoptDisk(arrival: Arrival): Promise<void>
  /** The same, in place of the disk that the desktop has. */
  replaceDisk(arrival: Arrival): Promise<void>
  /** Refuses a saved memory that would open anything on this host but what belongs to the desktop. */
  requireHarmless(arrival: Arrival, memoryPath: string): Promise<void>
}

export interface Arrival {
  spec: DesktopSpec
  mark: Mark
  imageDigest: string
  /** False if its disk may still have the size of the template with which it began. */
  furnished: boolean
}
