// Vaults: where copies of desktops are, off their hosts.
import { z } from 'zod'

export const vaultName = z.string().regex(/^[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?$/)
/** Vaults that one host may know. */
export const vaultsMax = 16

export const protection = z
  .enum(['memory', 'disk', 'none'])
  .describe(
    'What would come back if its host were lost now. `memory`: its last sleep, with memory and disk. `disk`: the disk of an earlier sleep, of `protected_at`. `none`: nothing',
  )
export type Protection = z.infer<typeof protection>
