// Why a copy of a desktop is not made, or is not restored.
import type { RefusalRow } from './refusal-row.ts'

export const vaultRefusals = {
  vault_unavailable: {
    status: 409,
    from: 'host',
    internalOnly: true,
    what: 'the vault of the copies cannot be used now',
    next: 'retry, and ask the operator if it fails again',
  },
  vault_full: {
    status: 409,
    from: 'host',
    internalOnly: true,
    what: 'the vault of the copies is full',
    next: 'ask the operator',
  },
  copy_damaged: {
    status: 409,
    from: 'host',
    internalOnly: true,
    what: 'the copy is damaged, or is no longer in its vault',
    next: 'choose another copy',
  },
} as const satisfies Record<string, RefusalRow>
