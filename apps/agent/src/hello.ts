// What this host sends to a control plane: who it is and what it has at first, and with each heartbeat what runs.
import { type Heartbeat, type Hello, linkProtocol, type Observation } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import type { Activity } from './desktops/activity.ts'
import type { ActivityReports } from './desktops/activity-reports.ts'
import { inventory, journalledInventory, raiseJournal } from './desktops/inventory.ts'
import type { LookDeps } from './desktops/situation.ts'
import type { Troubles } from './desktops/troubles.ts'
import type { Watch } from './desktops/watch.ts'
import type { WithoutLeader } from './desktops/without-leader.ts'
import type { Facts } from './facts.ts'
import { before } from './mechanics/deadlines.ts'

interface HelloDeps extends LookDeps {
  installationId: string
  log: Log
}

/** How long the check of all domains may take; a heartbeat that comes late would cost the link. */
const checkMs = 2_000

export async function sayHello(deps: HelloDeps, facts: Facts): Promise<Hello> {
  const host = await facts.current()
  return {
    protocol: linkProtocol,
    installationId: deps.installationId,
    facts: host,
    inventory: await itemsOf(deps, host.ailment),
    highestEpoch: deps.journal.highestEpoch,
  }
}

/** If the hypervisor does not answer, the items are the journal's; the facts report the problem. */
async function itemsOf(deps: HelloDeps, ailment: string | null): Promise<Observation[]> {
  try {
    await raiseJournal(deps)
    return await inventory(deps)
  } catch (error) {
    deps.log.warn({ err: error, ailment }, 'the hypervisor gave no inventory; the journal is reported instead')
    return journalledInventory(deps)
  }
}

interface HeartbeatDeps {
  watch: Watch
  facts: Facts
  activity: Activity
  reports: ActivityReports
  withoutLeader: Pick<WithoutLeader, 'asks'>
  troubles: Pick<Troubles, 'current'>
  log: Log
}

/**
 * What runs is billed, so it is checked now. If the hypervisor does not answer in time, no desktop is named. The heartbeat has
 * the part of the desktops' activity that its link has not sent yet.
 */
export async function sayHeartbeat(deps: HeartbeatDeps, link: object): Promise<Heartbeat> {
  const { watch, facts, activity, reports, withoutLeader, troubles, log } = deps
  const check = watch.checkAll().then(
    () => true,
    (err: unknown) => {
      log.warn({ err }, 'the domains could not be listed')
      return false
    },
  )
  const checked = await before(performance.now() + checkMs, check)
  const running = checked ? watch.running() : []
  const current = await facts.current()
  if (checked) activity.retain(new Set(running.map(({ desktopId }) => desktopId)))
  const troubled = troubles.current()
  return {
    facts: current,
    running,
    activity: reports.changed(link, running),
    ...(troubled.length > 0 && { troubles: troubled }),
    ...(withoutLeader.asks && { wantsIdleRules: true }),
  }
}
