// Restore: place, restore. The desktop keeps its state until the copy is whole on a host. If it fails, the desktop is as it was, or
// its host reports what it has; a repeated restore goes on from there.
import { imageFolderName } from '@dormouse/contract'
import { together } from '@dormouse/process'
import type { Links } from '../../agents/links.ts'
import type { Db } from '../../db/pool.ts'
import type { Hosts } from '../../hosts/service.ts'
import type { Images } from '../../images/service.ts'
import type { Leadership } from '../../leadership/leadership.ts'
import {
  type OperationDefinition,
  requireFound,
  type SettleContext,
  type StepContext,
} from '../../operations/definition.ts'
import { endGeneration } from '../generations.ts'
import { takeDiskOfCopy } from '../size-store.ts'
import { settle } from '../state-changes.ts'
import { bind, lockAny, unbind } from '../store.ts'
import { commandOptions, fenceOf } from './fence.ts'
import { type RestoreFindings, type RestoreInput, restoreFindings, restoreInput } from './stored.ts'

export interface RestoreContext {
  leadership: Leadership
  hosts: Hosts
  images: Images
  links: Links
}

type Restore = StepContext<RestoreInput, RestoreFindings>

/** On the host that has the desktop; or on any that can have its image, if none has it any more. */
function placing({ leadership, hosts, images, links }: RestoreContext) {
  return async (context: Restore): Promise<RestoreFindings> => {
    const { operation, advance } = context
    const { desktopId, input } = operation
    const { hostId, spec, madeFrom } = input
    if (hostId !== null) {
      const found = { hostId, isNew: false }
      await leadership.transaction(async (tx) => {
        await lockAny(tx, desktopId)
        await advance(tx, found)
      })
      return found
    }
    const registered = madeFrom === null ? undefined : await images.madeFrom(madeFrom)
    const { diskGiB, imageVersion: image } = spec
    const request = { desktopId, vcpus: 0, memoryMiB: 0, diskGiB, image, registered }
    const found = await hosts.place(null, request, (host) =>
      leadership.transaction(async (tx) => {
        const found = { hostId: host.id, isNew: true }
        await together([lockAny(tx, desktopId), host.confirm(tx)])
        const bound = bind(tx, desktopId, {
          hostId: host.id,
          madeFrom: registered ? imageFolderName(registered) : null,
        })
        await together([host.reserve(tx), bound, advance(tx, found)])
        return found
      }),
    )
    if (registered) {
      const payload = { image: registered, desktopId, operationId: operation.id }
      await links.command(found.hostId, 'image.ensure', payload, commandOptions(context))
    }
    return found
  }
}

export const restore = (deps: RestoreContext): OperationDefinition<RestoreInput, RestoreFindings> => ({
  kind: 'restore',
  input: restoreInput,
  findings: restoreFindings,
  hostOf: ({ input, findings }) => findings.hostId ?? input.hostId,
  steps: [
    {
      name: 'place',
      phase: () => 'placing',
      advances: true,
      run: placing(deps),
      noUndo: 'what was reserved is released when the operation settles',
    },
    {
      name: 'restore',
      phase: () => 'restoring',
      run: async (context) => {
        const { vault, snapshot, spec, imageDigest, handoff, memory } = context.operation.input
        const { hostId } = requireFound(context.operation, 'hostId')
        const payload = { fence: fenceOf(context), vault, snapshot, spec, imageDigest, handoff, memory }
        const { state } = await deps.links.command(hostId, 'copy.restore', payload, commandOptions(context))
        return { restored: state }
      },
      noUndo: 'the host keeps what it has until the copy is whole; after that, a repeat goes on',
    },
  ],
  precedes: () => true,
  lock: (tx, { desktopId }) => lockAny(tx, desktopId),

  async succeeded(tx, { operation }) {
    const { restored } = requireFound(operation, 'restored')
    const { desktopId, generationId, id: operationId } = operation
    await settle(tx, desktopId, restored, { by: 'restore', operationId })
    await takeDiskOfCopy(tx, desktopId, operation.input.spec.diskGiB)
    await endGeneration(tx, generationId!, 'restored')
  },

  resultOf({ generation, generationId, input, findings }) {
    return {
      desktop_state: findings.restored ?? input.from,
      generation,
      generation_id: generationId,
      host_id: findings.hostId ?? null,
      restored_from: { copy_id: input.copyId, taken_at: input.takenAt },
    }
  },

  failed: (tx, { operation }) => settleFailed(deps, tx, operation),
})

/** On a host that had nothing of it, nothing that counts is left. */
async function settleFailed(
  { hosts }: RestoreContext,
  tx: Db,
  { desktopId, generationId, findings }: SettleContext<RestoreInput, RestoreFindings>['operation'],
): Promise<string | undefined> {
  await endGeneration(tx, generationId!, 'restore failed')
  if (!findings.isNew) return undefined
  await unbind(tx, desktopId)
  await hosts.releaseAll(tx, desktopId)
  return undefined
}
