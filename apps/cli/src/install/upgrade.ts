// Upgrades the agents of hosts, one after another. Awake desktops go on meanwhile; the first failure ends the round.
import type { AdminClient, DesktopJson } from '@dormouse/client'
import { CliError, exitCodes } from '../failures.ts'
import { lastHeartbeat, startAgent, untilUsable } from './enrolment.ts'
import { prepare } from './install.ts'
import { Machine, type Work } from './machine.ts'
import { type Report, shortened } from './report.ts'
import type { Target } from './target.ts'

/** Upgrades all of them; rejects with the ones that are left. */
export async function upgradeAll(work: Work, targets: readonly Target[]): Promise<Report[]> {
  const done: Report[] = []
  for (const target of targets) {
    try {
      done.push(await upgrade(work, target))
    } catch (error) {
      work.terminal.signal.throwIfAborted()
      const left = targets.slice(done.length).map(({ label }) => label)
      throw stopped(error as Error, left, done)
    }
  }
  return done
}

function stopped(error: Error, left: string[], done: Report[]): CliError {
  const next = error instanceof CliError ? error.next : 'see the message'
  return new CliError(
    `the upgrade stopped after ${done.length} of ${done.length + left.length} hosts: ${error.message}`,
    `${next}; then run it again for ${left.join(' ')}`,
    error instanceof CliError ? error.exitCode : exitCodes.failed,
    { code: 'upgrade_stopped', left, done },
  )
}

async function upgrade(work: Work, target: Target): Promise<Report> {
  const { admin, terminal } = work
  const { signal } = terminal
  using machine = await Machine.open(work, target)
  const { hosts } = await admin.listHosts({ signal })
  await machine.check(hosts, undefined, true)
  const id = machine.facts.agent.hostId!
  const before = (await on(admin, id, signal)).filter(({ state }) => state === 'awake').map((each) => each.id)
  await prepare(work, machine, true)
  await startAgent(machine.root)
  const changed = machine.hasChanged
  const host = await machine.step('usable', async (show) => {
    const since = changed ? await lastHeartbeat(admin, id, signal) : null
    return { value: await untilUsable(admin, id, { since, signal, show }), result: 'ok' }
  })
  await machine.step('desktops', async () => {
    const lost = (await on(admin, id, signal)).filter(
      (each) => before.includes(each.id) && (each.state === 'stopped' || each.state === 'failed'),
    )
    if (lost.length > 0)
      throw new CliError(
        `${lost.length} of ${before.length} desktops that were awake on ${host.name} are not: ${shortened(lost.map((each) => each.id))}`,
        '`dormouse operations <id>` shows what happened to each',
        exitCodes.failed,
        { host_id: id, desktops: lost.map((each) => each.id) },
      )
    return { value: undefined, result: 'ok', detail: `${before.length} awake` }
  })
  return machine.report(changed ? 'installed' : 'unchanged', host)
}

/** The most that the service lists at once. */
const maxListed = 10_000

async function on(admin: AdminClient, hostId: string, signal: AbortSignal): Promise<DesktopJson[]> {
  const { desktops } = await admin.listDesktops({ host_id: hostId, limit: maxListed }, { signal })
  return desktops
}
