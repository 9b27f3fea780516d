// Makes a machine a host: checks, the agent's package, its enrolment, a trial. Safe to repeat, and to interrupt anywhere.
import type { HostJson } from '@dormouse/client'
import { enrol, lastHeartbeat, startAgent, untilUsable } from './enrolment.ts'
import { raiseLimits } from './limits.ts'
import { changes, Machine, type Show, type Work } from './machine.ts'
import { installPackage } from './package.ts'
import type { Report } from './report.ts'
import type { Target } from './target.ts'
import { tryDesktop } from './trial.ts'

export interface InstallOptions {
  /** For operators; by default the first part of the target's name. */
  name?: string | undefined
  checkOnly: boolean
  trial: boolean
  image?: string | undefined
}

/** Installs one host. */
export async function install(work: Work, target: Target, options: InstallOptions): Promise<Report> {
  const { admin, terminal } = work
  const { signal } = terminal
  using machine = await Machine.open(work, target)
  const { hosts } = await admin.listHosts({ signal })
  const name = options.name ?? nameOf(target)
  await machine.check(hosts, name, false)
  if (options.checkOnly) return machine.report('checked')
  await prepare(work, machine, false)
  const id = await machine.step('enrolment', async () => {
    const { hostId } = machine.facts.agent
    if (hostId) return { value: hostId, result: 'unchanged' }
    const { controlPlanes, allowHttp } = work
    const value = await enrol(admin, machine.root, { controlPlanes, allowHttp, name, signal })
    return { value, result: 'changed', detail: value }
  })
  await machine.step('service', async () => {
    const isStarted = await startAgent(machine.root)
    return { value: undefined, result: isStarted ? 'changed' : 'unchanged' }
  })
  const host = await machine.step('usable', async (show) => {
    const since = machine.hasChanged ? await lastHeartbeat(admin, id, signal) : null
    return { value: await untilUsable(admin, id, { since, signal, show }), result: 'ok' }
  })
  if (options.trial) await machine.step('trial', (show) => trial(work, host, options.image, show))
  return machine.report(machine.hasChanged ? 'installed' : 'unchanged', host)
}

/** Installs the package and raises libvirt's limits; what is new there is checked by the agent. */
export async function prepare({ source }: Work, machine: Machine, upgrade: boolean): Promise<void> {
  const installed = await machine.step('package', async (show) => {
    const version = await installPackage(machine.root, source, upgrade, show)
    return { value: version, ...changes(version ? [`dormouse-agent ${version}`] : []) }
  })
  await machine.step('limits', async () => ({ value: undefined, ...changes(await raiseLimits(machine.root)) }))
  if (installed) await machine.checkByAgent()
}

/** An address makes a poor name: the agent then chooses the machine's own. */
const nameOf = ({ host }: Target): string | undefined =>
  /^[\d.]+$|:/.test(host) || host === 'localhost' ? undefined : host.split('.')[0]

async function trial(work: Work, host: HostJson, image: string | undefined, show: Show) {
  const { admin, customerWith, terminal } = work
  const detail = await tryDesktop({ admin, customerWith, host, image, signal: terminal.signal, show })
  return { value: undefined, result: 'ok' as const, detail }
}
