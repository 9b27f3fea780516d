// Hibernate: save. Where it fails, the host is asked what is true, and that becomes the state.
import { type DesktopState, type Observation, Refusal } from '@dormouse/contract'
import type { Links } from '../../agents/links.ts'
import type { Hosts } from '../../hosts/service.ts'
import { type Findings, type OperationDefinition, step } from '../../operations/definition.ts'
import * as store from '../store.ts'
import { asking, fenceOf, inputOf } from './input.ts'

export interface HibernateContext {
  hosts: Hosts
  links: Links
}

interface Found extends Findings {
  memoryBytes?: number
  seen?: Pick<Observation, 'domain' | 'memory'> | 'out of reach' | 'nothing'
}

const putOff: Found = { seen: 'out of reach' }

export const hibernate = ({ hosts, links }: HibernateContext): OperationDefinition => ({
  kind: 'hibernate',
  steps: [
    step({
      name: 'save',
      run: async (context) => {
        const { hostId } = inputOf(context)
        const { memoryBytes } = await links.command(
          hostId!,
          'desktop.ensureHibernated',
          { fence: fenceOf(context) },
          asking(context),
        )
        return { memoryBytes }
      },
      /** A save is not taken back; the host says what came of it. */
      undo: async (context) => {
        const { hostId } = inputOf(context)
        const seen = await links
          .command(hostId!, 'desktop.observe', { desktopId: context.operation.desktopId }, asking(context))
          .then(({ domain, memory }): Found['seen'] => ({ domain, memory }))
          .catch((error: unknown): Found['seen'] => {
            if (!(error instanceof Refusal)) throw error
            if (error.code === 'host_unreachable') return 'out of reach'
            if (error.code === 'unknown_desktop') return 'nothing'
            throw error
          })
        return { seen }
      },
      putOff,
    }),
  ],

  lock: (tx, { desktopId }) => store.lockAny(tx, desktopId),

  async succeeded(tx, { operation }) {
    const { desktopId, generation, generationId } = operation
    await store.settle(tx, desktopId, 'hibernated', { operationId: operation.id, livedUntilNow: true })
    await store.endGeneration(tx, generationId!, 'hibernated')
    await hosts.releaseMemory(tx, desktopId)
    const { hostId } = inputOf({ operation })
    return { desktop_state: 'hibernated', generation, generation_id: generationId, host_id: hostId }
  },

  async failed(tx, { operation, findings }) {
    const { desktopId, generationId } = operation
    const { seen } = findings as Found
    const state = stateAsSeen(seen)
    await store.settle(tx, desktopId, state, { operationId: operation.id })
    if (state === 'awake') return isKnown(seen) ? 'it is still awake' : 'it counts as awake until its host is back'
    await store.endGeneration(tx, generationId!, state)
    await hosts.releaseMemory(tx, desktopId)
    if (state === 'hibernated') return 'it is hibernated all the same'
    return seen === 'nothing' ? 'its host has nothing of it' : 'it had stopped: its memory is lost, its disk is kept'
  },
})

const isKnown = (seen: Found['seen']): boolean => seen !== undefined && seen !== 'out of reach'

/** What is true after a save that failed. Out of reach it counts as awake until the host is back and says otherwise. */
export function stateAsSeen(seen: Found['seen']): DesktopState {
  if (seen === undefined || seen === 'out of reach') return 'awake'
  if (seen === 'nothing') return 'stopped'
  if (seen.domain === 'running' || seen.domain === 'paused') return 'awake'
  return seen.memory === 'complete' ? 'hibernated' : 'stopped'
}
