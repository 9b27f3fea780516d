// No sleeping desktop holds memory of this host.
import type { WarmCopies } from '../desktops/warm-copies.ts'
import type { CommandHandler } from './handler.ts'

export const dropWarmCopies: CommandHandler<'host.dropWarmCopies', { warm: WarmCopies }> = async ({ warm }) => ({
  dropped: await warm.dropAll(),
})
