// Commands about copies: make one, bring one back, and keep a vault in order.
import type { CommandName } from '@dormouse/contract'
import type { Copies } from '../copies/copies.ts'
import type { MakeDeps } from '../copies/make.ts'
import { type RestoreDeps, restore } from '../copies/restore.ts'
import type { CommandHandler, TurnDeps } from './handler.ts'

type Deps = MakeDeps & RestoreDeps & TurnDeps & { turns: MakeDeps['turns']; copies: Copies }
type Handled = Extract<CommandName, `copy.${string}` | `vault.${string}`>

export const copyHandlers: { [N in Handled]: CommandHandler<N, Deps> } = {
  /** Its snapshot is whole in the vault. */
  'copy.make': (deps, request, signal) => deps.copies.make(deps, request, signal),

  /** The desktop sleeps here as it was copied. */
  'copy.restore': (deps, { fence, vault, ...request }) =>
    deps.turns.run(fence, 'copy.restore', (turn) =>
      deps.copies.with(vault, turn.signal, (repository) => restore(deps, turn, repository, request)),
    ),

  'copy.forget': async ({ copies }, { vault, snapshots }, signal) => {
    await copies.with(vault, signal, (repository) => repository.forget(snapshots, signal))
    return {}
  },

  /** Removes data that no copy has, and reads a part of the rest. */
  'vault.keep': async ({ copies }, { vault, part }, signal) => {
    await copies.with(vault, signal, async (repository) => {
      await repository.unlock(signal)
      await repository.prune(signal)
      await repository.check(part, signal)
    })
    return {}
  },
}
