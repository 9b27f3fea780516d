// The leader's commands for the desktops of this host, each in its desktop's turn, and its looks at them.
import { type CommandName, refuse } from '@dormouse/contract'
import { absent } from '../desktops/absent.ts'
import type { Activity } from '../desktops/activity.ts'
import { type AsleepDeps, asleep } from '../desktops/asleep.ts'
import { type DestroyDeps, destroy } from '../desktops/destroy.ts'
import { ensureDisk } from '../desktops/ensure-disk.ts'
import type { Figures } from '../desktops/figures.ts'
import type { Furnishing } from '../desktops/furnishing.ts'
import { hibernate } from '../desktops/hibernate.ts'
import { inventory, observe } from '../desktops/inventory.ts'
import { digestsOf, unknownItems } from '../desktops/inventory-digests.ts'
import { carryOut, type OrderDeps } from '../desktops/orders.ts'
import { removeSpent } from '../desktops/situation.ts'
import type { Turn } from '../desktops/turns.ts'
import { type WakeDeps, wake } from '../desktops/wake.ts'
import type { WarmCopies } from '../desktops/warm-copies.ts'
import type { CallsInFlight } from './calls-in-flight.ts'
import type { CommandHandler, TurnDeps } from './handler.ts'

export interface DesktopDeps extends WakeDeps, AsleepDeps, DestroyDeps, OrderDeps, TurnDeps {
  driver: WakeDeps['driver']
  turns: OrderDeps['turns'] & TurnDeps['turns']
  memory: WakeDeps['memory']
  digests: WakeDeps['digests']
  guests: AsleepDeps['guests']
  activity: Activity
  figures: Figures
  furnishing: Furnishing
  calls: CallsInFlight
  warm: WarmCopies
}

type Handled = Extract<CommandName, `desktop.${string}` | `host.${string}`>

export const desktopHandlers: { [N in Handled]: CommandHandler<N, DesktopDeps> } = {
  /** Its disk exists: an overlay on its image. */
  'desktop.ensureDisk': (deps, { fence, ...wish }) =>
    deps.turns.run(fence, 'desktop.ensureDisk', (turn) => ensureDisk(deps, turn, wish)),

  /** It runs in this generation, its guest answers, and its clock is right. */
  'desktop.ensureAwake': async (deps, { fence, ...wish }) => {
    const work = async (turn: Turn) => {
      const woken = await wake(deps, turn, wish)
      deps.activity.watch(fence.desktopId)
      return woken
    }
    const woken = await deps.turns.run(fence, 'desktop.ensureAwake', work, { syncsLater: true })
    // Not awaited: the desktop can be used without a network.
    void deps.furnishing.furnish(fence.desktopId)
    return woken
  },

  /** Its memory is saved beside its disk, and nothing runs. With a condition, only if it is idle. */
  'desktop.ensureHibernated': (deps, { fence, ifIdle }) =>
    deps.turns.run(fence, 'desktop.ensureHibernated', (turn) => hibernate(deps, turn, ifIdle), { syncsLater: true }),

  /** Undoes a wake: nothing of it runs any more. */
  'desktop.ensureAsleep': (deps, { fence }) =>
    deps.turns.run(fence, 'desktop.ensureAsleep', (turn) => asleep(deps, turn), { undoes: true, freesSpace: true }),

  /** Nothing of it is left. */
  'desktop.ensureDestroyed': (deps, { fence }) =>
    deps.turns.run(fence, 'desktop.ensureDestroyed', (turn) => destroy(deps, turn), {
      preempts: true,
      freesSpace: true,
    }),

  /** Nothing of it is left, and it may come again in a later turn. */
  'desktop.ensureAbsent': (deps, { fence }) =>
    deps.turns.run(fence, 'desktop.ensureAbsent', (turn) => absent(deps, turn), {
      preempts: true,
      undoes: true,
      freesSpace: true,
    }),

  /** The wake has settled: the spent image is removed. */
  'desktop.tidy': (deps, { fence }) => {
    const work = async () => {
      await removeSpent(deps, fence.desktopId)
      return {}
    }
    return deps.turns.run(fence, 'desktop.tidy', work, { freesSpace: true })
  },

  /** What exists of it, and how busy it is. */
  'desktop.observe': async (deps, { desktopId }) => {
    const seen = await observe(deps, desktopId)
    if (!seen) return refuse('unknown_desktop', 'this host has nothing of that desktop')
    const calls = deps.calls.count(desktopId)
    if (seen.domain !== 'running') return { ...seen, calls }
    return { ...seen, calls, activity: deps.activity.of(desktopId, seen.generation) }
  },

  /** What it has used; nothing if this host has kept nothing of it. */
  'desktop.metrics': async ({ figures }, { desktopId, span }) => ({ points: await figures.points(desktopId, span) }),

  /** Every desktop of this installation, or those that differ from what the leader has. */
  'host.inventory': async (deps, { known }) => {
    const items = await inventory(deps)
    const digests = digestsOf(items)
    return { items: unknownItems(items, digests, known), digests }
  },

  /** The leader's orders, each carried out only if nothing has changed since the leader saw its desktop. */
  'host.rejoin': async (deps, { epoch, orders }) => {
    await deps.journal.raiseEpoch(epoch)
    await Promise.all(orders.map((order) => carryOut(deps, order)))
    return { items: await inventory(deps) }
  },

  /** No sleeping desktop holds memory. */
  'host.dropWarmCopies': async ({ warm }) => ({ dropped: await warm.dropAll() }),
}
