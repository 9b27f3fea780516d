/** The options of a peer-to-peer migration, as libvirt's typed parameters. */
import { migrateFlag } from './constants.ts'
import type { TypedParam } from './protocol.ts'
import { textParams } from './values.ts'

export interface Migration {
  /** Bits of `migrateFlag`; `peer2peer` is added. */
  flags: number
  /**
   * Where the destination's QEMU listens: `tcp://<address>`, or `unix://<path>` of a socket that both hosts see. Use an
   * address, not a name: a name look-up may stall the migration.
   */
  migrateUri?: string
  /** Where the destination receives the disks, such as `unix://<path>`; by default a port next to that of `migrateUri`. */
  disksUri?: string
  /** The domain XML at the destination: only what the host sees may differ. */
  xml?: string
  name?: string
  bandwidthMiBps?: number
  /** Targets of the disks to copy, for `nonSharedDisk` and `nonSharedInc`; by default all that are not shared. */
  disks?: string[]
  listenAddress?: string
}

/** The parameters and flags of `domainMigratePerform3Params`. */
export function migrationParams(migration: Migration): { params: TypedParam[]; flags: number } {
  const { bandwidthMiBps, disks = [] } = migration
  const params = textParams({
    migrate_uri: migration.migrateUri,
    disks_uri: migration.disksUri,
    destination_xml: migration.xml,
    destination_name: migration.name,
    listen_address: migration.listenAddress,
  })
  for (const disk of disks) params.push({ name: 'migrate_disks', value: { type: 'text', value: disk } })
  if (bandwidthMiBps !== undefined) {
    params.push({ name: 'bandwidth', value: { type: 'u64', value: BigInt(bandwidthMiBps) } })
  }
  return { params, flags: (migration.flags | migrateFlag.peer2peer) >>> 0 }
}
