// Gets a host enrolled once, and waits until the control plane can use it.
import { setTimeout as sleep } from 'node:timers/promises'
import type { AdminClient, HostJson } from '@dormouse/client'
import { CliError, exitCodes } from '../failures.ts'
import type { Facts } from './facts.ts'
import type { Root } from './root.ts'

const invitationSecs = 900
const pauseMs = 500
const enrolMs = 60_000
/** An invitation of an interrupted run may still be good, and its host may even be enrolled with it already. */
const earlierInvitationMs = 15_000
const usableMs = 120_000

type Show = ((text: string) => void) | undefined

/** A token for one host; undefined if the host needs none, or has one that may still be good. */
export async function invitationFor(
  admin: AdminClient,
  { agent }: Facts,
  name: string | undefined,
  signal: AbortSignal,
): Promise<string | undefined> {
  if (agent.hostId || agent.hasSettings) return undefined
  return newInvitation(admin, name, signal)
}

/** A new token for one host. */
export async function newInvitation(
  admin: AdminClient,
  name: string | undefined,
  signal: AbortSignal,
): Promise<string> {
  return (await admin.inviteHost({ ...(name && { name }), valid_secs: invitationSecs }, { signal })).token
}

/** Prints the host's id once there is one, or `declined`. The file's secret part is not read. */
const script = `
settings=/etc/dormouse/agent.env
state=$(sed -n 's/^DORMOUSE_AGENT_STATE_DIR=//p' $settings 2>/dev/null | tail -n 1)
id=$(sed -n 's/.*"hostId":"\\([0-9a-f-]*\\)".*/\\1/p' "\${state:-/var/lib/dormouse-agent}/identity.json" 2>/dev/null)
if [ -n "$id" ]; then echo "$id"
elif journalctl --unit dormouse-agent --lines 40 --output cat 2>/dev/null | grep -q 'invite_spent'; then echo declined; fi`

/**
 * The id under which the host is enrolled; undefined if its invitation is refused, or there is no answer within the time.
 */
export async function enrolledId(
  root: Root,
  { isFirst, signal, show }: { isFirst: boolean; signal: AbortSignal; show: Show },
): Promise<string | undefined> {
  const ends = performance.now() + (isFirst ? enrolMs : earlierInvitationMs)
  show?.('waiting for the enrolment')
  for (;;) {
    const said = (await root.run(script)).stdout.trim()
    if (/^[\da-f-]{36}$/.test(said)) return said
    if (performance.now() > ends || (said === 'declined' && !isFirst)) return undefined
    await sleep(pauseMs, undefined, { signal })
  }
}

/** The error of a host that did not enrol, with the last lines of its agent. */
export async function notEnrolled(root: Root): Promise<CliError> {
  const log = await root.run('journalctl --unit dormouse-agent --lines 3 --output cat 2>/dev/null; true')
  const why = log.stdout.trim().split('\n').at(-1)?.slice(0, 400) || 'its agent logs nothing'
  return new CliError(
    `${root.session.target.label} did not enrol: ${why}`,
    'on the host: journalctl -u dormouse-agent; then run the same command again',
    exitCodes.timedOut,
  )
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
