// The only access to the hypervisor. Mechanical: each call does one thing and decides nothing. It knows no journals, turns
// or fences, only the mark that it writes. What a wake or a hibernation is, is decided in `desktops`.
import type { Duplex } from 'node:stream'
import type { DesktopId, DesktopSpec, HostFacts, Observation, Shares } from '@dormouse/contract'
import type { Readiness } from '../images/images.ts'
import type { ImageStore } from '../images/store.ts'
import type { GuestAddress, GuestEvent } from './guest-access.ts'
import type { Mark } from './mark.ts'
import type { Moves } from './moves.ts'
import type { TemplateDriver } from './templates.ts'

export interface Domain {
  desktopId: DesktopId
  mark: Mark
  /** `paused` runs no vCPU but holds its memory; `stopped` is a definition without a process. */
  state: 'running' | 'paused' | 'stopped'
  /** As the hypervisor reports it. */
  reason: string | null
  /**
   * What has paused it, if no work of the host is in progress. `space`: its disk could not grow, and it continues when it is
   * resumed and there is space. `suspended`: its guest has put itself to sleep. Null unless its state is `paused`.
   */
  pause: NonNullable<Observation['pause']> | null
}

export interface DriverFacts {
  kvm: boolean
  versions: Record<string, string>
  /** The number of processors offered; may be a fraction. */
  processors: number
  capacity: HostFacts['capacity']
  freeDiskGiB: number
  images: string[]
  ailment: string | null
}

/** Guests of running domains that have put themselves to sleep: they answer nothing until they are woken. */
export interface GuestSleep {
  /** False if that cannot be seen. */
  isAsleep(desktopId: DesktopId): Promise<boolean>
  /** Does nothing to a guest that is not asleep. */
  wake(desktopId: DesktopId): Promise<void>
}

/** What can restore a saved memory; recorded in its manifest. */
export interface SavedBy {
  hypervisor: string
  emulator: string
  cpuModel: string
  machine: string
}

/** What a guest has used since its process started; a part is undefined if that is not known. */
export interface GuestUsage {
  /** Time that its virtual processors have run or waited for a processor. */
  processorMs: number | undefined
  /** Received and sent. */
  networkBytes: number | undefined
  /** Time that its virtual processors have run. */
  ranMs?: number | undefined
  receivedBytes?: number | undefined
  sentBytes?: number | undefined
  /** Of its disk. */
  readBytes?: number | undefined
  writtenBytes?: number | undefined
  /** Now, as the guest reports it: what it could not give to a program that asks for memory. */
  memoryUsedMiB?: number | undefined
  memoryMiB?: number | undefined
}

/** How the guest reads keys, and whether a program in it shares its clipboard. */
export interface GuestKeyboard {
  /** The layout's name, such as `us`. */
  layout: string
  clipboard: boolean
}

/** `gap`: events may have been missed, so everything has to be checked again. */
export type DriverEvent = { type: 'domain'; desktopId: DesktopId; reason: string | null } | { type: 'gap' } | GuestEvent

export type SaveProgress = (doneBytes: number, totalBytes: number) => void

/**
 * Every call may be repeated. An expected failure is thrown as a `Refusal`: `hypervisor_failed`, `host_disk_full`,
 * `image_unavailable`, `memory_image_damaged`, or `host_unreachable` if the hypervisor does not answer; the outcome is
 * then unknown.
 */
export interface Driver {
  readonly kind: HostFacts['driver']
  /** Opens the hypervisor for one installation. If there is no hypervisor, the facts report it, and nothing is thrown. */
  open(installationId: string): Promise<void>
  close(): Promise<void>
  facts(): Promise<DriverFacts>
  listen(listener: (event: DriverEvent) => void): void

  /** The domains that carry this installation's mark. */
  domains(): Promise<Domain[]>
  domain(desktopId: DesktopId): Promise<Domain | undefined>
  /** Boots from the disk; the domain runs when it returns. */
  startCold(spec: DesktopSpec, mark: Mark): Promise<void>
  /** Writes the memory to `path` and ends the domain. After a failure the guest runs on and no whole file is left. */
  save(desktopId: DesktopId, path: string, progress: SaveProgress): Promise<void>
  /**
   * Writes the memory to `path` and leaves the domain paused with the same memory: a copy of the file that can be resumed at
   * once, or killed. Disk and file are then as they belong together. Fails as `save` does; the domain may then be paused.
   */
  saveAndKeep(desktopId: DesktopId, path: string, progress: SaveProgress): Promise<void>
  /** Whether no vCPU has run since `saveAndKeep`: only then is the domain a copy of the file. */
  isKept(desktopId: DesktopId): Promise<boolean>
  /** Resumes a paused domain, also one that `saveAndKeep` has left. */
  resumeKept(desktopId: DesktopId): Promise<void>
  /** How much of the host's memory its process holds; undefined if that is not known. */
  residentMiB(desktopId: DesktopId): Promise<number | undefined>
  /** Makes a paused domain with the memory of `path`; no vCPU has run. */
  restorePaused(desktopId: DesktopId, path: string, mark: Mark): Promise<void>
  savedBy(desktopId: DesktopId): Promise<SavedBy>
  /** Runs it, whatever has paused it; a guest that has suspended itself wakes. */
  resume(desktopId: DesktopId): Promise<void>
  suspend(desktopId: DesktopId): Promise<void>
  setMark(mark: Mark): Promise<void>
  /**
   * Gives the domain its shares of the host from now on; without shares, nothing limits it. Never throws: what the host cannot
   * limit is logged, and shown in its facts.
   */
  setShares(desktopId: DesktopId, shares: Shares | undefined): Promise<void>
  /** Ends the process at once and removes the definition; does nothing if there is neither. */
  kill(desktopId: DesktopId): Promise<void>
  /** Resolves when no save is in progress, including one that an earlier agent process began. */
  jobEnded(desktopId: DesktopId): Promise<void>
  /** Ends a save or restore in progress; does nothing if there is none. */
  abortJob(desktopId: DesktopId): Promise<void>

  /** How much all disks together can still grow. */
  freeDiskBytes(): Promise<number>
  disks(): Promise<DesktopId[]>
  hasDisk(desktopId: DesktopId): Promise<boolean>
  /** Makes an overlay on the image, whole or not at all; on the one with that manifest if one is named. */
  makeDisk(desktopId: DesktopId, spec: DesktopSpec, manifestDigest?: string): Promise<void>
  /** How many whole GiB its guest sees when it boots next. */
  diskGiB(desktopId: DesktopId): Promise<number>
  /** The disk of a desktop that does not run is at least that large, and keeps its content. */
  growDisk(desktopId: DesktopId, diskGiB: number): Promise<void>
  removeDisk(desktopId: DesktopId): Promise<void>

  /** The images of this host. */
  readonly images: ImageStore
  /** The folders of the images that disks stand on. Throws if one cannot be read. */
  imageFoldersInUse(): Promise<Set<string>>

  /** Its part in moves between hosts. */
  readonly moves: Moves

  /** Its part in templates, from which desktops are first woken. */
  readonly templates: TemplateDriver

  /** When its image counts a guest as ready; undefined if the image does not say. */
  readiness(desktopId: DesktopId): Promise<Readiness | undefined>
  /** The address that its guest has to request, once: its memory came from a host that had given it another one. */
  newAddress(desktopId: DesktopId): Promise<GuestAddress | undefined>
  readonly guestSleep: GuestSleep

  /** Whether its guest makes no progress: it is paused, or its process is stopped. Cheap, because it is called often. */
  frozen(desktopId: DesktopId): boolean
  /**
   * What these running guests have used. A guest that is not there any more is left out. With `whole` also disk and memory, which
   * their processes are asked for.
   */
  usage(desktopIds: readonly DesktopId[], options?: { whole?: boolean }): Promise<Map<DesktopId, GuestUsage>>
  /** What these guests have printed on their consoles since the call before, in whole lines; nothing at the first. */
  printed(desktopIds: readonly DesktopId[]): Promise<Map<DesktopId, string>>
  /**
   * A connection to the screen of a running desktop. The protocol is RFB, and the server sends first; the caller owns its
   * bytes.
   */
  screen(desktopId: DesktopId): Promise<Duplex>
  /** The keyboard that its image names. */
  keyboard(desktopId: DesktopId): Promise<GuestKeyboard>
  /** Whether the guest's program that shares its clipboard is connected. */
  clipboardConnected(desktopId: DesktopId): Promise<boolean>
}
