// Hibernate: save. If it fails, the host is asked for the actual state, and that becomes the desktop's.

import { type DesktopState, observation, Refusal } from '@dormouse/contract'
import { together } from '@dormouse/process'
import { z } from 'zod'
import type { Links } from '../../agents/links.ts'
import type { Db } from '../../db/pool.ts'
import type { Hosts } from '../../hosts/service.ts'
import type { Leadership } from '../../leadership/leadership.ts'
import { type OperationDefinition, type SettleContext, step } from '../../operations/definition.ts'
import { isOwnHibernation } from '../../operations/followers.ts'
import { endGeneration } from '../generations.ts'
import { settle } from '../state-changes.ts'
import { lockAny } from '../store.ts'
import { afterMove } from './after-move.ts'
import { commandOptions, fenceOf, inputOf } from './input.ts'

export interface HibernateContext {
  leadership: Leadership
  hosts: Hosts
  links: Links
}

const findings = z.object({
  memoryBytes: z.int().optional(),
  /** What the host has of it after a save that failed. */
  seen: z.union([observation.pick({ domain: true, memory: true }), z.enum(['out of reach', 'nothing'])]).optional(),
})
type Findings = z.infer<typeof findings>
type Seen = Findings['seen']

const deferred: Findings = { seen: 'out of reach' }

export const hibernate = ({ leadership, hosts, links }: HibernateContext): OperationDefinition => ({
  kind: 'hibernate',
  hostOf: (operation) => inputOf({ operation }).hostId,
  steps: [
    step({
      name: 'save',
      phase: 'saving',
      run: async (context) => {
        const { hostId, ifIdle } = inputOf(context)
        const payload = { fence: fenceOf(context), ifIdle }
        const ask = () => links.command(hostId!, 'desktop.ensureHibernated', payload, commandOptions(context))
        const { memoryBytes } = await afterMove({ leadership, links }, context, hostId!, ask)
        return { memoryBytes }
      },
      /** A save cannot be undone; the host reports what came of it. */
      undo: async (context) => {
        const { hostId } = inputOf(context)
        const seen = await links
          .command(hostId!, 'desktop.observe', { desktopId: context.operation.desktopId }, commandOptions(context))
          .then(({ domain, memory }): Seen => ({ domain, memory }))
          .catch((error: unknown): Seen => {
            if (!(error instanceof Refusal)) throw error
            if (error.code === 'host_unreachable') return 'out of reach'
            if (error.code === 'unknown_desktop') return 'nothing'
            throw error
          })
        return { seen }
      },
      deferred,
    }),
  ],

  lock: (tx, { desktopId }) => lockAny(tx, desktopId),

  precedes: isOwnHibernation,
  vanishes: ({ requestedBy }, { code }) => requestedBy === 'idle' && code === 'not_idle',

  succeeded: (tx, context) => settleHibernated(hosts, tx, context, false),
  succeededAtOnce: (tx, context) => settleHibernated(hosts, tx, context, true),

  resultOf({ operation }) {
    const { generation, generationId } = operation
    const { hostId } = inputOf({ operation })
    return { desktop_state: 'hibernated', generation, generation_id: generationId, host_id: hostId }
  },

  async failed(tx, { operation, findings: stored }) {
    const { desktopId, generationId } = operation
    const { seen } = findings.parse(stored)
    const state = stateAsSeen(seen)
    await settle(tx, desktopId, state, { by: 'hibernate', operationId: operation.id })
    if (state === 'awake')
      return isKnown(seen) ? 'it is still awake' : 'it counts as awake until its host is reachable again'
    await endGeneration(tx, generationId!, state)
    await hosts.releaseMemory(tx, desktopId)
    if (state === 'hibernated') return 'it is hibernated nevertheless'
    return seen === 'nothing' ? 'its host has nothing of it' : 'it had stopped: its memory is lost, its disk is kept'
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
