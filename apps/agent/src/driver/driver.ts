// The only door to the hypervisor. Mechanical: each call does one thing and decides nothing. It knows no journals, no
// turns and no fences beyond the mark it is told to write; what a wake or a hibernation is, is decided above.
import type { Duplex } from 'node:stream'
import type { Capacity, DesktopId, DesktopSpec, HostFacts } from '@dormouse/contract'
import type { Readiness } from '../images/images.ts'
import type { GuestTransport } from './guest-transport.ts'

/** What stands in a domain's own metadata: whose it is, and the last command that was obeyed for it. */
export interface Mark {
  installationId: string
  desktopId: DesktopId
  generation: number
  turn: number
  operationId: string
}

export interface Domain {
  desktopId: DesktopId
  mark: Mark
  /** `paused` runs no vCPU but holds its memory; `stopped` is a definition without a process. */
  state: 'running' | 'paused' | 'stopped'
  /** In the hypervisor's words. */
  reason: string | null
  /** Paused by the hypervisor, for its disk could not grow. It goes on where it was when it is resumed with room. */
  outOfSpace: boolean
}

export interface DriverFacts {
  kvm: boolean
  versions: Record<string, string>
  /** What it lends from; a part of one, where so little was set. */
  processors: number
  capacity: Omit<Capacity, 'vcpus'>
  freeDiskGiB: number
  images: string[]
  ailment: string | null
}

/** What a saved memory can be restored by; kept in its manifest. */
export interface SavedBy {
  hypervisor: string
  emulator: string
  cpuModel: string
  machine: string
}

/** `gap`: events may have been missed, everything must be looked at again. */
export type DriverEvent = { type: 'domain'; desktopId: DesktopId; reason: string | null } | { type: 'gap' }

export type SaveProgress = (doneBytes: number, totalBytes: number) => void

/**
 * Every call may be repeated, and throws a `Refusal` where the failure was foreseen: `hypervisor_failed`,
 * `host_disk_full`, `image_unavailable`, `memory_image_damaged`, or `host_unreachable` where the hypervisor does not
 * answer now (the outcome is then unknown).
 */
export interface Driver {
  readonly kind: HostFacts['driver']
  /** Begins for one installation. A hypervisor that is missing is an ailment, not an error. */
  open(installationId: string): Promise<void>
  close(): Promise<void>
  facts(): Promise<DriverFacts>
  listen(listener: (event: DriverEvent) => void): void

  /** Only domains that carry this installation's mark. */
  domains(): Promise<Domain[]>
  domain(desktopId: DesktopId): Promise<Domain | undefined>
  /** Boots from the disk; the domain runs when it returns. */
  startCold(spec: DesktopSpec, mark: Mark): Promise<void>
  /** Writes memory to `path` and ends the domain; on failure the guest goes on and no whole file is left. */
  save(desktopId: DesktopId, path: string, progress: SaveProgress): Promise<void>
  /** The domain holds the memory of `path`; no vCPU has run. */
  restorePaused(desktopId: DesktopId, path: string, mark: Mark): Promise<void>
  savedBy(desktopId: DesktopId): Promise<SavedBy>
  resume(desktopId: DesktopId): Promise<void>
  suspend(desktopId: DesktopId): Promise<void>
  setMark(mark: Mark): Promise<void>
  /** Ends the process at once and removes the definition; nothing there is as good. */
  kill(desktopId: DesktopId): Promise<void>
  /** Returns when no save is under way any more, also one that an agent before this one had begun. */
  jobEnded(desktopId: DesktopId): Promise<void>
  /** Ends a save or restore under way; nothing under way is as good. */
  abortJob(desktopId: DesktopId): Promise<void>

  /** How much the disks of all desktops together can still grow. */
  freeDiskBytes(): Promise<number>
  disks(): Promise<DesktopId[]>
  hasDisk(desktopId: DesktopId): Promise<boolean>
  /** An overlay on the image; whole or not at all. */
  makeDisk(desktopId: DesktopId, spec: DesktopSpec): Promise<void>
  removeDisk(desktopId: DesktopId): Promise<void>

  guest(desktopId: DesktopId): GuestTransport
  /** What its image calls ready; undefined where it says nothing of it. */
  readiness(desktopId: DesktopId): Promise<Readiness | undefined>
  /** Whether nothing goes on in its guest just now: paused, or its process stopped from outside. Asked often. */
  frozen(desktopId: DesktopId): boolean
  /** A connection to the screen of a running desktop, which speaks RFB and greets first. What it says is its reader’s own. */
  screen(desktopId: DesktopId): Promise<Duplex>
  /** The screen as it is now, as PNG. */
  picture(desktopId: DesktopId): Promise<Buffer>
}
