// Hibernate: save. If that fails, the host reports the actual state, which becomes the desktop's state.

import { type DesktopState, Refusal } from '@dormouse/contract'
import { together } from '@dormouse/process'
import type { Links } from '../../agents/links.ts'
import type { Db } from '../../db/pool.ts'
import type { Hosts } from '../../hosts/service.ts'
import type { Leadership } from '../../leadership/leadership.ts'
import type { OperationDefinition, SettleContext } from '../../operations/definition.ts'
import { endGeneration } from '../generations.ts'
import { settle } from '../state-changes.ts'
import { lockAny } from '../store.ts'
import { afterMove } from './after-move.ts'
import { commandOptions, fenceOf } from './fence.ts'
import { type HibernateFindings, type HibernateInput, hibernateFindings, hibernateInput } from './stored.ts'

export interface HibernateContext {
  leadership: Leadership
  hosts: Hosts
  links: Links
}

type Seen = HibernateFindings['seen']

export const hibernate = ({
  leadership,
  hosts,
  links,
}: HibernateContext): OperationDefinition<HibernateInput, HibernateFindings> => ({
  kind: 'hibernate',
  input: hibernateInput,
  findings: hibernateFindings,
  hostOf: ({ input }) => input.hostId,
  steps: [
    {
      name: 'save',
      phase: () => 'saving',
      run: async (context) => {
        const { hostId, ifIdle } = context.operation.input
        const payload = { fence: fenceOf(context), ifIdle }
        const ask = () => links.command(hostId, 'desktop.ensureHibernated', payload, commandOptions(context))
        const { memoryBytes } = await afterMove({ leadership, links }, context, hostId, ask)
        return { memoryBytes }
      },
      /** A save cannot be undone; the host reports its outcome. */
      undo: async (context) => {
        const { desktopId, input } = context.operation
        const seen = await links
          .command(input.hostId, 'desktop.observe', { desktopId }, commandOptions(context))
          .then(({ domain, memory }): Seen => ({ domain, memory }))
          .catch((error: unknown): Seen => {
            if (!(error instanceof Refusal)) throw error
            if (error.code === 'host_unreachable') return 'out of reach'
            if (error.code === 'unknown_desktop') return 'nothing'
            throw error
          })
        return { seen }
      },
      deferred: { seen: 'out of reach' },
    },
  ],

  lock: (tx, { desktopId }) => lockAny(tx, desktopId),

  precedes: () => true,
  vanishes: ({ requestedBy }, { code }) => requestedBy === 'idle' && code === 'not_idle',

  succeeded: (tx, context) => settleHibernated(hosts, tx, context, false),
  succeededAtOnce: (tx, context) => settleHibernated(hosts, tx, context, true),

  resultOf({ generation, generationId, input }) {
    return { desktop_state: 'hibernated', generation, generation_id: generationId, host_id: input.hostId }
  },

  async failed(tx, { operation }) {
    const { desktopId, generationId } = operation
    const { seen } = operation.findings
    const state = stateAsSeen(seen)
    await settle(tx, desktopId, state, { by: 'hibernate', operationId: operation.id })
    if (state === 'awake')
      return isKnown(seen) ? 'it is still awake' : 'it counts as awake until its host is reachable again'
    await endGeneration(tx, generationId!, state)
    await hosts.releaseMemory(tx, desktopId)
    if (state === 'hibernated') return 'it is hibernated nevertheless'
    return seen === 'nothing' ? 'its host no longer has it' : 'it had stopped: its memory is lost, its disk is kept'
  },
})

function settleHibernated(hosts: Hosts, tx: Db, { operation }: SettleContext, atOnce: boolean): Promise<unknown> {
  const { desktopId, generationId, id: operationId } = operation
  return together([
    settle(tx, desktopId, 'hibernated', { by: 'hibernate', operationId, livedUntilNow: true, atOnce }),
    endGeneration(tx, generationId!, 'hibernated'),
    hosts.releaseMemory(tx, desktopId),
  ])
}

const isKnown = (seen: Seen): boolean => seen !== undefined && seen !== 'out of reach'

/** The state after a failed save. On an unreachable host the desktop counts as awake until the host reports otherwise. */
export function stateAsSeen(seen: Seen): DesktopState {
  if (seen === undefined || seen === 'out of reach') return 'awake'
  if (seen === 'nothing') return 'stopped'
  if (seen.domain === 'running' || seen.domain === 'paused') return 'awake'
  return seen.memory === 'complete' ? 'hibernated' : 'stopped'
}
