// images, tiers: what desktops can be created with.
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
    .description('list the tiers and their sizes')
    .action(async (options: JsonOption) => {
      const sizes = await customer().listTiers({ signal })
      show(options, sizes, () =>
        table(
          ['TIER', 'VCPUS', 'MEMORY', 'DISK'],
          sizes.tiers.map((one) => [one.tier, one.vcpus, `${one.memory_mib} MiB`, `${one.disk_gib} GiB`]),
        ),
      )
    })
}
