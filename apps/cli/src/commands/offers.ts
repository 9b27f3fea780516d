// images, tiers: what desktops can be created with.
import type { TierJson } from '@dormouse/client'
import type { Command } from 'commander'
import type { Context } from '../context.ts'
import { type JsonOption, withJson } from '../options.ts'
import { table } from '../terminal.ts'

/** Adds `images` and `tiers`. */
export function addOffers(program: Command, { customer, show, terminal }: Context): void {
  const { signal } = terminal
  withJson(program.command('images'), 'dormouse images')
    .description('list the images that desktops can be created with')
    .action(async (options: JsonOption) => {
      const offered = await customer().listImages({ signal })
      show(options, offered, () =>
        table(
          ['IMAGE', 'VERSION', 'DEFAULT'],
          offered.images.map((one) => [one.image_version, one.resolved_image_version, one.is_default ? 'yes' : '']),
        ),
      )
    })
  withJson(program.command('tiers'), 'dormouse tiers')
    .description('list the tiers: their sizes, and what a desktop gets of its host while others want the same')
    .action(async (options: JsonOption) => {
      const sizes = await customer().listTiers({ signal })
      show(options, sizes, () =>
        table(
          ['TIER', 'VCPUS', 'MEMORY', 'DISK', 'WEIGHT', 'IOPS', 'MIB/S', 'MBIT/S', 'PACKETS/S', 'CONNECTIONS'],
          sizes.tiers.map((one) => [
            ...[one.tier, one.vcpus, `${one.memory_mib} MiB`, `${one.disk_gib} GiB`],
            ...sharesOf(one),
          ]),
        ),
      )
    })
}

/** A service of release 0.1 does not tell them. */
function sharesOf({ shares }: { shares?: TierJson['shares'] }): (number | string)[] {
  if (!shares) return Array<string>(6).fill('')
  const { cpu_weight, disk_iops, disk_mib_per_second, network_mbit_per_second, packets_per_second, connections } =
    shares
  const disk = [disk_iops, disk_mib_per_second]
  return [cpu_weight, ...disk, network_mbit_per_second, packets_per_second, connections].map((one) => one ?? 'no limit')
}
