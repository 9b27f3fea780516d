// The wings: features that no other module needs. Each has a folder with a `wing.ts`, and an import and a line here. Without
// them the rest works unchanged.
import type { DesktopJson, Heartbeat, IdleRule, LastMetricsJson } from '@dormouse/contract'
import type { Upgrades } from '@dormouse/link'
import { openBulk } from './bulk/wing.ts'
import { openCopies } from './copies/wing.ts'
import type { Db } from './db/pool.ts'
import { type LabelRules, noLabelRules } from './desktops/label-rules.ts'
import { openDrains } from './drains/wing.ts'
import { openFigures } from './figures/wing.ts'
import type { App } from './http/app.ts'
import { openIdle } from './idle/wing.ts'
import { openInput } from './input/wing.ts'
import { openKeys } from './keys/wing.ts'
import { openMcp } from './mcp/wing.ts'
import { openQuotas } from './quotas/wing.ts'
import type { Reconciler } from './reconcile/reconcilers.ts'
import { openSchedules } from './schedules/wing.ts'
import { openSuspensions } from './suspensions/wing.ts'
import type { Gauged } from './telemetry/gauges.ts'
import { openTerminals } from './terminals/wing.ts'
import { openUpgrades } from './upgrades/wing.ts'
import { openWakeOnUse } from './wake-on-use/wing.ts'
import { openWebhooks } from './webhooks/wing.ts'

const openers = {
  bulk: openBulk,
  copies: openCopies,
  drains: openDrains,
  figures: openFigures,
  idle: openIdle,
  input: openInput,
  keys: openKeys,
  mcp: openMcp,
  quotas: openQuotas,
  schedules: openSchedules,
  suspensions: openSuspensions,
  terminals: openTerminals,
  upgrades: openUpgrades,
  wakeOnUse: openWakeOnUse,
  webhooks: openWebhooks,
}

/** What a wing may provide. */
export interface Wing {
  /** Called before the routes below `/v1` are registered: for hooks that see them all. */
  beforeCustomerRoutes?(scope: App): void
  /** Below `/v1`. */
  customerRoutes?(scope: App, watch: { onMismatch(): void }): void
  /** Routes for customers outside `/v1`. */
  agentRoutes?(scope: App): void
  /** Below `/admin/v1`. */
  operatorRoutes?(scope: App): void
  /** Whether it authenticates WebSocket upgrades of this URL below `/v1`. */
  takesUpgrades?(url: string): boolean
  attach?(upgrades: Upgrades): void
  reconcilers?: Reconciler[]
  /** Functions that delete old records, by the name of the records. */
  prune?: Record<string, (db: Db) => Promise<number>>
  gauges?: Gauged[]
  /** May refuse desktops because of their labels. Of one wing at most. */
  labelRules?: LabelRules
  /** Called if another client takes the claim on a screen. */
  onTakenOver?(): void
  /** The rules by which a host hibernates its idle desktops without contact to a leader. */
  idleRules?(hostId: string): Promise<IdleRule[] | undefined>
  /** What the desktop has used of its processor, memory, disk and network lately; null if that is not known now. */
  lastMetrics?(desktop: DesktopJson, requestId: string): Promise<LastMetricsJson | null>
  /** What a host has said of its guests, if this replica leads. Never fails. */
  heard?(hostId: string, heartbeat: Heartbeat): Promise<void>
  /** Resolves when the wing has no work in progress. */
  settled?(): Promise<void>
  close?(): Promise<void>
}

type Openers = typeof openers
type Opener = Openers[keyof Openers]
type Joined<Union> = (Union extends unknown ? (one: Union) => void : never) extends (all: infer All) => void
  ? All
  : never
/** The union of what the wings need. */
export type WingNeeds = Joined<Parameters<Opener>[0]>
export type Wings = ReturnType<typeof openWings>

/** Opens each wing, and merges what they provide. */
export function openWings(needs: WingNeeds) {
  const entries = Object.entries(openers).map(([name, open]) => [name, (open as (needs: WingNeeds) => Wing)(needs)])
  const own = Object.fromEntries(entries) as { [N in keyof Openers]: ReturnType<Openers[N]> }
  const all: Wing[] = Object.values(own)
  return {
    ...own,
    reconcilers: all.flatMap(({ reconcilers }) => reconcilers ?? []),
    prune: Object.assign({}, ...all.map(({ prune }) => prune)) as NonNullable<Wing['prune']>,
    gauges: all.flatMap(({ gauges }) => gauges ?? []),
    beforeCustomerRoutes: (scope: App) => {
      for (const wing of all) wing.beforeCustomerRoutes?.(scope)
    },
    customerRoutes: (...given: Parameters<NonNullable<Wing['customerRoutes']>>) => {
      for (const wing of all) wing.customerRoutes?.(...given)
    },
    agentRoutes: (scope: App) => {
      for (const wing of all) wing.agentRoutes?.(scope)
    },
    operatorRoutes: (scope: App) => {
      for (const wing of all) wing.operatorRoutes?.(scope)
    },
    takesUpgrades: (url: string) => all.some((wing) => wing.takesUpgrades?.(url)),
    attach: (upgrades: Upgrades) => {
      for (const wing of all) wing.attach?.(upgrades)
    },
    labelRules: all.find(({ labelRules }) => labelRules)?.labelRules ?? noLabelRules,
    onTakenOver: () => {
      for (const wing of all) wing.onTakenOver?.()
    },
    idleRules: async (hostId: string) =>
      (await Promise.all(all.map((wing) => wing.idleRules?.(hostId)))).find((rules) => rules !== undefined),
    lastMetrics: async (...given: Parameters<NonNullable<Wing['lastMetrics']>>) =>
      (await all.find(({ lastMetrics }) => lastMetrics)?.lastMetrics?.(...given)) ?? null,
    heard: async (...given: Parameters<NonNullable<Wing['heard']>>) =>
      void (await Promise.all(all.map((wing) => wing.heard?.(...given)))),
    settled: async () => void (await Promise.all(all.map((wing) => wing.settled?.()))),
    close: async () => void (await Promise.all(all.map((wing) => wing.close?.()))),
  }
}
