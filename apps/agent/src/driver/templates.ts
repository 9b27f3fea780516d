// The hypervisor's part in templates: saved boots of an image, which desktops copy. Mechanical like the rest of the driver:
// when one is made, and who gets a copy, is decided above. A template's guest belongs to no desktop: it has no mark, no
// network.
import type { DesktopId, DesktopSpec } from '@dormouse/contract'
import type { Readiness } from '../images/images.ts'
import type { GuestAddress } from './guest-access.ts'
import type { Mark } from './mark.ts'

/** What a saved boot depends on. If any of it differs, another template is needed. */
export interface TemplateTraits {
  /** The digest of the image's manifest. */
  image: string
  memoryMiB: number
  vcpus: number
  machine: string
  cpuModel: string
  emulator: string
  hypervisor: string
  kvm: boolean
  memory: TemplateMemory
}

/**
 * How desktops get a template's memory: each a copy of a saved memory; or all map one file, each privately. If QEMU can
 * open such a file only for writing, a guest that escapes could change the memory of all others.
 */
export const templateMemory = ['copied', 'mapped-read-only', 'mapped-writable'] as const
export type TemplateMemory = (typeof templateMemory)[number]

/** The files of a template in its folder. The last two are there only if the memory is mapped. */
export const templateFiles = { disk: 'disk.qcow2', memory: 'memory', devices: 'devices', domain: 'domain.xml' } as const

/** A template as desktops begin with it. */
export interface MadeTemplate {
  path: string
  traits: Pick<TemplateTraits, 'memory'>
}

/** The guest of a template that is being made. */
export interface TemplateGuest {
  state: 'running' | 'paused' | 'stopped'
  reason: string | null
}

export interface TemplateDriver {
  /** The traits of a desktop whose disk exists; undefined if a copy of its guest could not be given an identity. */
  traits(desktopId: DesktopId, spec: DesktopSpec): Promise<TemplateTraits | undefined>
  /** The traits of desktops that are made of the image with that name and manifest; undefined if this host does not have it. */
  traitsOfImage(manifestDigest: string, spec: DesktopSpec): Promise<TemplateTraits | undefined>
  /** Whether this host has the image with that manifest. */
  hasImage(manifestDigest: string): Promise<boolean>
  /** When its image counts a guest as ready. */
  readiness(spec: DesktopSpec, traits: TemplateTraits): Promise<Readiness | undefined>

  /** Boots a guest that belongs to no desktop, from a new disk in that folder, with those traits. */
  boot(buildId: string, folder: string, spec: DesktopSpec, traits: TemplateTraits): Promise<void>
  domain(buildId: string): Promise<TemplateGuest | undefined>
  /** Writes its memory into its folder and ends it: it never runs again. Disk and memory are then as they belong together. */
  save(buildId: string, folder: string, traits: TemplateTraits): Promise<void>
  /** Ends it, if it still runs, and removes what it had outside its folder. */
  end(buildId: string): Promise<void>
  /** Ends those of all templates. */
  endAll(): Promise<void>

  /**
   * Replaces the desktop's disk by a copy of the template's. If the memory is copied, the desktop's copy is in the file at
   * `memoryPath` then.
   */
  copy(template: MadeTemplate, mark: Mark, memoryPath: string): Promise<void>
  /** Makes a paused domain with the desktop's disk and the template's memory, of the file or mapped; no vCPU has run. */
  start(template: MadeTemplate, mark: Mark, memoryPath: string): Promise<void>
  /** Replaces the desktop's disk by an empty one on the same image. */
  emptyDisk(desktopId: DesktopId, spec: DesktopSpec): Promise<void>
  /** Makes the disk of a running copy as large as its own desktop's is. Whether it has grown just now. */
  growDisk(desktopId: DesktopId, spec: DesktopSpec): Promise<boolean>
  /** Gives a running copy its port on the network. The address that its guest has to request; undefined if there is no network. */
  plug(desktopId: DesktopId): Promise<GuestAddress | undefined>
}
