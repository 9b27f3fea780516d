// The libvirt driver's settings. The configuration decides where they come from.
import type { AllowedDestination } from './allowed-destinations.ts'
import type { CapacitySettings } from './capacity.ts'

/** Wraps each call to libvirt. Passed in by the wiring: metrics and traces are no matter of the driver. */
export type CallObserver = <T>(procedure: string, work: () => Promise<T>) => Promise<T>

export interface LibvirtSettings {
  socketPath: string
  /** The system's driver by default. */
  uri?: string
  /** Fetched images are in its folder `images`. */
  disksDir: string
  consolesDir: string
  imagesDir: string
  /** Where the sockets of screens and of guests' ports are; undefined lets libvirt choose. */
  socketsDir: string | undefined
  /** Where the sockets of moves are, each move's in a folder of its own that only QEMU's user may enter. */
  movesDir: string
  kvm: 'auto' | 'on' | 'off'
  cpuModel: string
  network: 'nat' | 'none'
  networkPrefix: string | undefined
  networkAllow: readonly AllowedDestination[]
  capacity: CapacitySettings
  /** Whether desktops map the memory of templates: `auto` only if QEMU opens it read-only. */
  shareTemplates: 'auto' | 'on' | 'off'
  observeCall?: CallObserver | undefined
}
