// What the driver is told of its host. Where it comes from is the configuration's business.
import type { Opening } from './openings.ts'
import type { OwnCapacity } from './room.ts'

export interface LibvirtSettings {
  socketPath: string
  /** The system's driver by default. */
  uri?: string
  disksDir: string
  consolesDir: string
  imagesDir: string
  /** Where screens listen; libvirt chooses where it is not given. */
  socketsDir: string | undefined
  /** Our halves of the key pairs by which guests know us. */
  guestKeysDir: string
  kvm: 'auto' | 'on' | 'off'
  cpuModel: string
  network: 'nat' | 'none'
  networkPrefix: string | undefined
  networkAllow: readonly Opening[]
  capacity: OwnCapacity
}
