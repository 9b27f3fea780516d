// Gets a host enrolled once, and waits until the control plane can use it.
import { setTimeout as sleep } from 'node:timers/promises'
import type { AdminClient, HostJson } from '@dormouse/client'
import { CliError, exitCodes } from '../failures.ts'
import type { Root } from './root.ts'

const invitationSecs = 900
const pauseMs = 500
/** The agent itself waits a minute for a control plane. */
const enrolMs = 120_000
const usableMs = 120_000

type Show = ((text: string) => void) | undefined

interface Enrolment {
  controlPlanes: readonly string[]
  allowHttp: boolean
  name: string | undefined
  signal: AbortSignal
}

/**
 * Enrols the machine with a new invitation, and returns its id. If an earlier run was interrupted, the agent tries that run's
 * invitation first, so one machine never becomes two hosts.
 */
export async function enrol(
  admin: AdminClient,
  root: Root,
  { controlPlanes, allowHttp, name, signal }: Enrolment,
): Promise<string> {
  const { token } = await admin.inviteHost({ ...(name && { name }), valid_secs: invitationSecs }, { signal })
  const words = [
    controlPlanes.join(','),
    '--json',
    ...(name ? ['--name', name] : []),
    ...(allowHttp ? ['--allow-http'] : []),
  ]
  const next = 'do what it says, then run the same command again'
  // The invitation is in no argument and in no file.
  const text = await root.must('the enrolment', next, 'exec dormouse-agent enrol "$@"', words, {
    stdin: `${token}\n`,
    timeoutMs: enrolMs,
  })
  const id = /"host_id":"([\da-f-]{36})"/.exec(text)?.[1]
  if (id) return id
  throw new CliError(`${root.session.target.label} enrolled without an answer`, 'run the same command again')
}

/** Starts the agent's service, unless it runs. Returns whether it did not run. */
export async function startAgent(root: Root): Promise<boolean> {
  const script = 'systemctl is-active --quiet dormouse-agent && exit 0; systemctl start dormouse-agent && echo started'
  const next = 'on the host: journalctl -u dormouse-agent'
  return (await root.must('starting the agent', next, script, [], { timeoutMs: enrolMs })).includes('started')
}

/** Read after an agent was restarted: a later heartbeat is the new agent's. */
export async function lastHeartbeat(admin: AdminClient, id: string, signal: AbortSignal): Promise<string | null> {
  const { hosts } = await admin.listHosts({ signal })
  return hosts.find((host) => host.id === id)?.last_heartbeat_at ?? null
}

/** Waits for a heartbeat later than `since`, from a host that takes desktops. */
export async function untilUsable(
  admin: AdminClient,
  id: string,
  { since, signal, show }: { since?: string | null; signal: AbortSignal; show: Show },
): Promise<HostJson> {
  const ends = performance.now() + usableMs
  for (;;) {
    const { hosts } = await admin.listHosts({ signal })
    const host = hosts.find((each) => each.id === id)
    if (host && isUsable(host, since)) return host
    const why = host ? problemOf(host, since) : 'it is not known to the control plane'
    show?.(why)
    if (performance.now() > ends)
      throw new CliError(
        `the host is installed, but not usable: ${why}`,
        'on the host: journalctl -u dormouse-agent; `dormouse admin host list` shows its state',
        exitCodes.timedOut,
        { host_id: id },
      )
    await sleep(pauseMs, undefined, { signal })
  }
}

const isHeard = (host: HostJson, since: string | null | undefined): boolean =>
  host.last_heartbeat_at !== null && (!since || host.last_heartbeat_at > since)

const isUsable = (host: HostJson, since: string | null | undefined): boolean =>
  host.state === 'active' && isHeard(host, since) && host.ailment === null && host.withheld === null

function problemOf(host: HostJson, since: string | null | undefined): string {
  if (!isHeard(host, since)) return 'waiting for its heartbeat'
  if (host.withheld) return 'its commands are withheld (`dormouse admin host trust`)'
  return host.ailment ?? `it is ${host.state}`
}
