// Upgrades: which release runs where, what comes next, and hosts whose agents are upgraded a batch at a time.
import { z } from 'zod'
import { replicaJson } from './admin.ts'
import { said } from './bounds.ts'
import { time } from './desktops.ts'
import { id } from './ids.ts'

/** As packages have it. It goes to a program that runs as root on each host. */
export const packageVersion = z
  .string()
  .regex(/^\d[0-9A-Za-z.+~-]{0,63}$/, 'must be the version of a package, such as 0.2.0')

export const upgradeBody = z.strictObject({
  version: packageVersion
    .nullish()
    .describe('What each host installs; by default the newest version in its repository'),
  batch: z.int().min(1).max(100).nullish().describe('Hosts at once; 1 by default'),
  timeout_secs: z.int().min(1).max(86_400).nullish().describe('How long one host may take; 600 by default'),
})
export type UpgradeBody = z.input<typeof upgradeBody>

export const upgradeStates = ['running', 'cancelling', 'upgraded', 'failed', 'cancelled'] as const
export type UpgradeState = (typeof upgradeStates)[number]

export const upgradeHostStatuses = ['waiting', 'working', 'upgraded', 'failed', 'skipped'] as const
export type UpgradeHostStatus = (typeof upgradeHostStatuses)[number]

export const upgradeJson = z
  .object({
    id,
    state: z.enum(upgradeStates).describe('`failed`: a host was not healthy after its upgrade, and the rest was left'),
    version: z.string().nullable().describe('Null: the newest in each host’s repository'),
    batch: z.int(),
    timeout_secs: z.int(),
    created_at: time,
    settled_at: time.nullable(),
    progress: z.object({
      total: z.int(),
      waiting: z.int(),
      working: z.int(),
      upgraded: z.int(),
      failed: z.int(),
      skipped: z.int(),
    }),
    hosts: z.array(
      z.object({
        host_id: id,
        host_name: z.string(),
        status: z.enum(upgradeHostStatuses),
        from_version: z.string().nullable().describe('The release of its agent before'),
        version: z.string().nullable().describe('What it has installed'),
        reason: z.string().nullable().describe('What it waits for, or why it failed or was skipped'),
      }),
    ),
  })
  .meta({ id: 'Upgrade' })
export type UpgradeJson = z.infer<typeof upgradeJson>

export const upgradePlanJson = z
  .object({
    target: z.string().describe('The release that everything is compared with'),
    replicas: z.array(z.object({ ...replicaJson.shape, action: z.enum(['upgrade', 'none']) })),
    hosts: z.array(
      z.object({
        host_id: id,
        host_name: z.string(),
        version: z.string().nullable(),
        action: z.enum(['upgrade', 'none', 'blocked']),
        reason: z.string().nullable().describe('Why it is blocked'),
      }),
    ),
    steps: z.array(z.string()).describe('What to do, in this order'),
    problems: z.array(z.string()).describe('What would not work, and why'),
  })
  .meta({ id: 'UpgradePlan' })
export type UpgradePlanJson = z.infer<typeof upgradePlanJson>

export const upgradeCommands = {
  /**
   * The host installs the version, or the newest one if none is given. A repeated command returns how far it is.
   */
  'agent.upgrade': {
    payload: z.object({ upgradeId: id, version: packageVersion.nullable() }),
    result: z.object({
      state: z.enum(['running', 'installed', 'failed']),
      /** What is installed then. */
      version: said(100).nullable(),
      /** Why it failed. */
      detail: said(1_000).nullable(),
    }),
  },
} as const
