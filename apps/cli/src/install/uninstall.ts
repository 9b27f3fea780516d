// Takes a machine out of service: the host is removed from the control plane, then the agent from the machine.
import { setTimeout as sleep } from 'node:timers/promises'
import type { AdminClient, HostJson } from '@dormouse/client'
import { CliError, exitCodes } from '../failures.ts'
import { Machine, type Work } from './machine.ts'
import { purgePackage } from './package.ts'
import { type Report, shortened } from './report.ts'
import type { Target } from './target.ts'

const pauseMs = 500
/** Longer than a control plane takes to notice that a link has closed. */
const silenceMs = 20_000

/** Refuses while the host has desktops. After an interruption, the next run continues. */
export async function uninstall(work: Work, target: Target): Promise<Report> {
  const { admin, terminal } = work
  const { signal } = terminal
  using machine = await Machine.open(work, target)
  const { hostId } = machine.facts.agent
  const host = hostId ? (await admin.listHosts({ signal })).hosts.find(({ id }) => id === hostId) : undefined
  if (host && host.state !== 'removed') {
    await refuseDesktops(admin, host, signal)
    await machine.step('host', async (show) => {
      await removeHost(work, machine, host, show)
      return { value: undefined, result: 'changed', detail: `${host.name}, ${host.id}` }
    })
  }
  await machine.step('package', async (show) => {
    if (!(await isInstalled(machine))) return { value: undefined, result: 'unchanged' }
    await purgePackage(machine.root, show)
    return { value: undefined, result: 'changed', detail: 'agent, settings, identity' }
  })
  return machine.report(machine.hasChanged ? 'uninstalled' : 'unchanged', host)
}

/** Also one that was removed, whose settings and identity are left. */
async function isInstalled({ root }: Machine): Promise<boolean> {
  const { stdout } = await root.run(`dpkg-query -W -f='\${db:Status-Abbrev}' dormouse-agent 2>/dev/null; true`)
  return /^[a-z][^nu]/.test(stdout)
}

async function refuseDesktops(
  admin: AdminClient,
  { id, name, desktops }: HostJson,
  signal: AbortSignal,
): Promise<void> {
  if (desktops === 0) return
  const listed = (await admin.listDesktops({ host_id: id }, { signal })).desktops
  const here = listed.map((each) => each.id)
  throw new CliError(
    `${name} has ${desktops} ${desktops === 1 ? 'desktop' : 'desktops'}: ${shortened(here)}`,
    'move or destroy them first: docs/runbooks/drain-a-host.md',
    exitCodes.conflict,
    { code: 'has_desktops', host_id: id, desktops: here },
  )
}

/**
 * Stops the agent, and sees the link of the host close: a machine that only claims to be the host cannot make this happen.
 * The control plane removes the host unless a desktop has come meanwhile.
 */
async function removeHost(
  { admin, terminal: { signal } }: Work,
  machine: Machine,
  host: HostJson,
  show?: (text: string) => void,
) {
  const next = 'on the host: systemctl status dormouse-agent'
  await machine.root.must(
    'stopping the agent',
    next,
    '! systemctl cat dormouse-agent >/dev/null 2>&1 || systemctl stop dormouse-agent',
  )
  try {
    show?.('waiting until its link is closed')
    await untilSilent(admin, host, signal)
    await admin.removeHost(host.id, { yes_lose: 0 }, { signal })
  } catch (error) {
    await machine.root.run('systemctl start dormouse-agent')
    throw error
  }
}

async function untilSilent(admin: AdminClient, { id, name }: HostJson, signal: AbortSignal): Promise<void> {
  const ends = performance.now() + silenceMs
  for (;;) {
    const host = (await admin.listHosts({ signal })).hosts.find((each) => each.id === id)
    if (!host?.linked) return
    if (performance.now() > ends)
      throw new CliError(
        `the agent is stopped, but ${name} is still connected: this machine is not ${name}`,
        'find out which machine it is: `dormouse admin host list`',
        exitCodes.conflict,
      )
    await sleep(pauseMs, undefined, { signal })
  }
}
