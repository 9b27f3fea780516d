// The list of operation kinds, each with what it needs.
import type { OperationKind } from '@dormouse/contract'
import type { CarryContext } from './desktops/operations/carry.ts'
import { type DestroyContext, destroy } from './desktops/operations/destroy.ts'
import { hibernate } from './desktops/operations/hibernate.ts'
import { move } from './desktops/operations/move.ts'
import { type RestoreContext, restore } from './desktops/operations/restore.ts'
import { type WakeContext, wake } from './desktops/operations/wake.ts'
import type { OperationDefinition } from './operations/definition.ts'

export const operationKinds = (
  context: WakeContext & DestroyContext & CarryContext & RestoreContext,
): Record<OperationKind, OperationDefinition> => ({
  wake: wake(context),
  hibernate: hibernate(context),
  destroy: destroy(context),
  move: move(context),
  restore: restore(context),
})
