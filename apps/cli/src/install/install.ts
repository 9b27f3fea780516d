// Makes a machine a host: checks, packages, the agent, its enrolment, a trial. Safe to repeat, and to interrupt anywhere.
import type { HostJson } from '@dormouse/client'
import { deliver } from './delivery.ts'
import { enrolledId, invitationFor, lastHeartbeat, newInvitation, notEnrolled, untilUsable } from './enrolment.ts'
import { changes, Machine, type Show, type Work } from './machine.ts'
import { installPackages, missingPackages } from './packages.ts'
import type { PayloadFile } from './payload.ts'
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
  const payload = options.checkOnly ? [] : await work.payload()
  using machine = await Machine.open(work, target)
  const { hosts } = await admin.listHosts({ signal })
  const name = options.name ?? nameOf(target)
  await machine.check(hosts, name, false)
  if (options.checkOnly) return machine.report('checked')
  await machine.step('packages', async (show) => {
    const names = missingPackages(machine.facts)
    if (names.length > 0) await installPackages(machine.root, names, show)
    return { value: undefined, ...changes(names) }
  })
  const id = await enrol(work, machine, payload, name)
  const host = await machine.step('usable', async (show) => {
    const since = machine.hasChanged ? await lastHeartbeat(admin, id, signal) : null
    return { value: await untilUsable(admin, id, { since, signal, show }), result: 'ok' }
  })
  if (options.trial) await machine.step('trial', (show) => trial(work, host, options.image, show))
  return machine.report(machine.hasChanged ? 'installed' : 'unchanged', host)
}

/** An address makes a poor name: the machine's own is then chosen by the installer. */
const nameOf = ({ host }: Target): string | undefined =>
  /^[\d.]+$|:/.test(host) || host === 'localhost' ? undefined : host.split('.')[0]

/** Installs the agent and gets it enrolled; returns the host's id. */
async function enrol(
  work: Work,
  machine: Machine,
  payload: readonly PayloadFile[],
  name: string | undefined,
): Promise<string> {
  const { admin, allowHttp, terminal } = work
  const { signal } = terminal
  const { root, facts } = machine
  const delivery = { controlPlanes: work.controlPlanes.join(','), name, allowHttp }
  await machine.step('agent', async (show) => {
    const invitation = await invitationFor(admin, facts, name, signal)
    const changed = await deliver(root, payload, { ...delivery, ...(invitation && { invitation }) }, show)
    return { value: undefined, ...changes(changed) }
  })
  return machine.step('enrolment', async (show) => {
    if (facts.agent.hostId) return { value: facts.agent.hostId, result: 'unchanged' }
    // If settings are left from an interrupted run, their invitation comes first: it may be used already, and a second
    // one would make a second host of this machine.
    const first = await enrolledId(root, { isFirst: !facts.agent.hasSettings, signal, show })
    if (first) return { value: first, result: 'changed', detail: first }
    if (!facts.agent.hasSettings) throw await notEnrolled(root)
    const invitation = await newInvitation(admin, name, signal)
    await deliver(root, payload, { ...delivery, invitation }, show)
    const second = await enrolledId(root, { isFirst: true, signal, show })
    if (!second) throw await notEnrolled(root)
    return { value: second, result: 'changed', detail: second }
  })
}

async function trial(work: Work, host: HostJson, image: string | undefined, show: Show) {
  const { admin, customerWith, terminal } = work
  const detail = await tryDesktop({ admin, customerWith, host, image, signal: terminal.signal, show })
  return { value: undefined, result: 'ok' as const, detail }
}
