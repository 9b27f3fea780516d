// Destroy: always completes. An unreachable host removes its part when it is back.
import { isOvertaken, refusalWithCause } from '@dormouse/contract'
import type { Links } from '../../agents/links.ts'
import type { Hosts } from '../../hosts/service.ts'
import { type OperationDefinition, requireFound, type StepContext } from '../../operations/definition.ts'
import { defer } from '../deferred.ts'
import { endGeneration } from '../generations.ts'
import type { Quota } from '../quota.ts'
import { settle } from '../state-changes.ts'
import { inProgress } from '../states.ts'
import { lockAny } from '../store.ts'
import { fenceOf } from './fence.ts'
import { type DestroyFindings, type DestroyInput, destroyFindings, destroyInput } from './stored.ts'

export interface DestroyContext {
  hosts: Hosts
  links: Links
  /** How long to wait for an unreachable host. */
  graceMs: number
  /** Called when the organisation has one desktop less. */
  quota: Pick<Quota, 'freed'>
}

export const destroy = (deps: DestroyContext): OperationDefinition<DestroyInput, DestroyFindings> => ({
  kind: 'destroy',
  input: destroyInput,
  findings: destroyFindings,
  overtakes: true,
  hostOf: ({ input }) => input.hostId,
  steps: [
    {
      name: 'remove',
      phase: () => 'removing',
      run: (context) => remove(deps, context),
      noUndo: 'a destroy cannot be undone',
    },
  ],

  lock: (tx, { desktopId }) => lockAny(tx, desktopId),

  async succeeded(tx, { operation }) {
    const { hosts } = deps
    const { desktopId, generation, generationId, turn, id } = operation
    const { hostId } = operation.input
    const { cleanup } = requireFound(operation, 'cleanup')
    await settle(tx, desktopId, 'destroyed', { by: 'destroy', operationId: id })
    if (generationId) await endGeneration(tx, generationId, 'destroyed')
    if (cleanup === 'deferred' && hostId && !(await hosts.isRemoved(hostId, tx))) {
      await defer(tx, { desktopId, hostId, command: 'desktop.ensureDestroyed', generation, turn, operationId: id })
    } else {
      await hosts.releaseAll(tx, desktopId)
    }
  },

  resultOf(operation) {
    const { generation, generationId, input } = operation
    const { cleanup } = requireFound(operation, 'cleanup')
    return { desktop_state: 'destroyed', generation, generation_id: generationId, host_id: input.hostId, cleanup }
  },

  afterwards: async ({ operation }) => deps.quota.freed(operation.orgId),

  /**
   * If the host refuses to remove it, the destroy fails and may be requested again. An operation that the destroy has
   * superseded does not resume, so the desktop counts as stopped until its host reports otherwise.
   */
  async failed(tx, { operation }) {
    const { from } = operation.input
    const state = from === 'awake' || inProgress.includes(from) ? 'stopped' : from
    await settle(tx, operation.desktopId, state, { by: 'destroy', operationId: operation.id })
    return 'it was not destroyed'
  },
})

async function remove(
  { hosts, links, graceMs }: DestroyContext,
  context: StepContext<DestroyInput, DestroyFindings>,
): Promise<DestroyFindings> {
  const { operation, signal } = context
  const { hostId } = operation.input
  if (hostId === null) return { cleanup: 'done' }
  try {
    const timeoutMs = Math.ceil(context.remainingMs)
    const requestId = operation.requestId ?? undefined
    await links.command(
      hostId,
      'desktop.ensureDestroyed',
      { fence: fenceOf(context) },
      { signal, timeoutMs, requestId },
    )
    return { cleanup: 'done' }
  } catch (error) {
    // Another leader has taken over and resumes this operation.
    if (signal.aborted || isOvertaken(error, 'leader')) throw error
    const why = (error as Error).message
    if (await hosts.isGone(hostId)) return { cleanup: 'deferred', why }
    if (context.ageMs < graceMs) throw refusalWithCause('host_unreachable', `the host has not removed it yet: ${why}`)
    return { cleanup: 'deferred', why }
  }
}
