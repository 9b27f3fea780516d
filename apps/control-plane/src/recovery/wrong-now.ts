// What is wrong now, for operators: what looks have found, and hosts that are not as they should be. Knows no HTTP.
import type { AlarmJson, HostJson } from '@dormouse/contract'
import type { AlarmKind, StandingAlarms } from '../alarms/service.ts'
import type { Hosts } from '../hosts/service.ts'

const nextOf: Record<AlarmKind, string> = {
  inventory:
    'compare it with `virsh list --all` on the host; `virsh resume` resumes the desktop, `dormouse destroy` removes it',
  mass_action:
    'compare the host with the database before anything is removed; was the database restored from a backup?',
  ledger: 'compare `dormouse admin operation` of its last operation with what the host runs',
  events: 'find the transaction in pg_stat_activity by its xact_start, and end it',
  paused: '`dormouse admin deferred` shows the command; restart the host’s agent, or repair its connection',
}

/** The oldest first. */
export async function wrongNow(alarms: StandingAlarms, hosts: Hosts): Promise<AlarmJson[]> {
  const standing = (await alarms.list()).map((row): AlarmJson => {
    const { kind, since, hostId, desktopId, what } = row
    const next = nextOf[kind as AlarmKind] ?? 'see the runbook “An alarm was raised”'
    return { kind, since: since.toISOString(), host_id: hostId, desktop_id: desktopId, what, next }
  })
  const all = [...(await hosts.list()).flatMap(wrongWithHost), ...standing]
  return all.sort((a, b) => (a.since ?? '').localeCompare(b.since ?? ''))
}

function wrongWithHost(host: HostJson): AlarmJson[] {
  const { id, name, state, withheld, quarantine, ailment, last_heartbeat_at: heard } = host
  const alarm = (kind: string, since: string | null, what: string, next: string): AlarmJson => {
    return { kind, since, host_id: id, desktop_id: null, what: `${name} ${what}`, next }
  }
  if (state === 'removed') return []
  const found: AlarmJson[] = []
  if (state === 'unreachable')
    found.push(
      alarm(
        'host_unreachable',
        heard,
        'is unreachable',
        `start its agent; if it does not come back: \`dormouse admin host remove ${name}\``,
      ),
    )
  if (state === 'lost')
    found.push(
      alarm(
        'host_lost',
        heard,
        'was declared lost',
        `\`dormouse admin host uncordon ${name}\` takes it back, once it is linked`,
      ),
    )
  if (withheld)
    found.push(
      alarm(
        'host_withheld',
        withheld.since,
        `reported epoch ${withheld.epoch} and gets no commands`,
        `find out why, then \`dormouse admin host trust ${name}\``,
      ),
    )
  if (quarantine)
    found.push(
      alarm(
        'host_quarantined',
        null,
        `gets no new desktops until ${quarantine.until}: ${quarantine.reason}`,
        `fix it, then \`dormouse admin host uncordon ${name}\``,
      ),
    )
  if (ailment && state === 'active')
    found.push(
      alarm(
        'host_unhealthy',
        null,
        `takes no desktop: ${ailment}`,
        'fix what it reports; the agent checks again by itself',
      ),
    )
  return found
}
