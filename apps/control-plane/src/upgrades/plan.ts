// The plan of an upgrade: what may be upgraded now, in which order, and what would not work. Pure.
import type { HostJson, ReplicaJson, UpgradePlanJson } from '@dormouse/contract'
import { compare, workTogether } from './versions.ts'

/** Without a target, that is the newest release that runs anywhere. */
export function planOf(replicas: ReplicaJson[], hosts: HostJson[], wanted: string | null): UpgradePlanJson {
  const running = [...replicas, ...hosts].flatMap(({ version }) => version ?? [])
  const target = wanted ?? running.toSorted(compare).at(-1) ?? '0.0.0'
  const shown = {
    replicas: replicas.map((one) => ({
      ...one,
      action: isOther(one, target) ? ('upgrade' as const) : ('none' as const),
    })),
    hosts: hosts.map((host) => {
      const reason = isOther(host, target) ? whyBlocked(host) : null
      const action = reason ? 'blocked' : isOther(host, target) ? 'upgrade' : 'none'
      return { host_id: host.id, host_name: host.name, version: host.version, action, reason } as const
    }),
  }
  return { target, ...shown, steps: stepsOf(target, shown), problems: problemsOf(target, shown) }
}

/** Why the host's agent cannot be upgraded from here now; null if it can. */
export function whyBlocked(host: HostJson): string | null {
  if (host.state === 'lost') return 'it was declared lost; take it back or remove it first'
  if (host.state !== 'active' || !host.linked) return 'it is unreachable; repair it first'
  if (host.withheld) return 'its commands are withheld; trust it first'
  if (host.ailment) return `it reports a problem: ${host.ailment}`
  if (!host.upgradable)
    return 'no unit on it upgrades the agent; enable dormouse-agent-upgrade.path there, or upgrade it by hand'
  return null
}

const isOther = ({ version }: { version: string | null }, target: string): boolean => compare(version, target) !== 0

type Shown = Pick<UpgradePlanJson, 'replicas' | 'hosts'>

/** Replicas go first, the leader as the last of them. To an older release, hosts go first. */
function stepsOf(target: string, { replicas, hosts }: Shown): string[] {
  const due = replicas.filter(({ action }) => action === 'upgrade')
  const ofReplicas = due
    .toSorted((a, b) => Number(a.leads) - Number(b.leads))
    .map(
      ({ url, version, leads }) =>
        `install ${target} in place of ${version} where ${url} runs${leads ? ', which leads: another replica takes over' : ''}, and wait until its /readyz answers 200`,
    )
  const count = hosts.filter(({ action }) => action === 'upgrade').length
  const ofHosts =
    count > 0
      ? [`upgrade ${count === 1 ? '1 host' : `${count} hosts`}: dormouse admin upgrade hosts --to ${target}`]
      : []
  const goesBack = due.some(({ version }) => compare(version, target) > 0)
  return goesBack ? [...ofHosts, ...ofReplicas] : [...ofReplicas, ...ofHosts]
}

function problemsOf(target: string, { replicas, hosts }: Shown): string[] {
  const named = [
    ...replicas.map(({ url, version }) => ({ name: `the replica ${url}`, version })),
    ...hosts.map(({ host_name, version }) => ({ name: `the host ${host_name}`, version })),
  ]
  const far = named
    .filter(({ version }) => version !== null && !workTogether(version, target))
    .map(
      ({ name, version }) =>
        `${name} runs ${version}, which does not work with ${target}; go through each minor release`,
    )
  const blocked = hosts.flatMap(({ host_name, reason }) => (reason ? [`the host ${host_name}: ${reason}`] : []))
  const single = replicas.length === 1 && replicas[0]!.action === 'upgrade'
  const down = single ? ['there is one replica; the service is unavailable while it restarts'] : []
  return [...far, ...blocked, ...down]
}
