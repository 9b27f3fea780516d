// Judges a machine: first what has to hold before its agent is installed, then what the agent itself finds there.
import type { HostJson } from '@dormouse/client'
import type { Facts } from './facts.ts'
import type { Source } from './package.ts'
import { lastLines, type Root } from './root.ts'

/** `failed` prevents a working host; `warning` does not. The same form as in `dormouse-agent check --json`. */
export interface Check {
  name: string
  result: 'ok' | 'warning' | 'failed'
  detail: string
  /** What to do, unless it is ok. */
  remedy?: string
}

interface Given {
  facts: Facts
  /** Where the package comes from. */
  source: Source
  /** The hosts that the control plane has. */
  hosts: readonly HostJson[]
  /** The name that the host would have. Undefined: its own. */
  name?: string | undefined
  /** Nothing new is enrolled: the agent must be there already. */
  upgrade?: boolean
}

const minDiskMiB = 1_024

/** What can be judged without the agent. Pure. */
export function judge(given: Given): Check[] {
  const { facts } = given
  return [distribution(facts), systemd(facts), disk(facts), agentPackage(given), enrolment(given)]
}

/** Whether the host could not work. */
export const isBlocked = (checks: readonly Check[]): boolean => checks.some(({ result }) => result === 'failed')

const ok = (name: string, detail: string): Check => ({ name, result: 'ok', detail })
const failed = (name: string, detail: string, remedy: string): Check => ({ name, result: 'failed', detail, remedy })

function distribution({ distribution: { id, version, name }, machine }: Facts): Check {
  const [year, month] = version.split('.').map(Number)
  const isUbuntuLts = id === 'ubuntu' && year! >= 22 && year! % 2 === 0 && month === 4
  if (!(id === 'debian' && (version === '12' || version === '13')) && !isUbuntuLts)
    return failed('distribution', name, 'use Debian 12 or 13, or an LTS release of Ubuntu from 22.04')
  if (machine !== 'x86_64') return failed('distribution', `${name}, ${machine}`, 'use a machine with x86-64 processors')
  return ok('distribution', name)
}

const systemd = ({ systemd }: Facts): Check =>
  systemd ? ok('systemd', 'runs') : failed('systemd', 'does not run', 'use a machine that systemd has started')

function disk({ diskFreeMiB }: Facts): Check {
  const detail = `${(diskFreeMiB / 1024).toFixed(1)} GiB free in /var`
  return diskFreeMiB < minDiskMiB ? failed('disk', detail, 'free at least 1 GiB') : ok('disk', detail)
}

function agentPackage({ facts: { agent, hasEarlierBuild }, source, upgrade }: Given): Check {
  const name = 'package'
  if (hasEarlierBuild)
    return failed(
      name,
      'an agent of a development build is in /opt/dormouse, and its host cannot be taken over',
      'remove it: `systemctl disable --now dormouse-agent; rm -r /opt/dormouse /etc/systemd/system/dormouse-agent.service /etc/dormouse/agent.env /var/lib/dormouse-agent`',
    )
  const installed = agent.installed && `${agent.installed} is installed`
  if (upgrade && !installed) return failed(name, 'no agent is installed', 'run this without --upgrade')
  if (source.kind === 'file') return ok(name, [installed, `${source.name} is given`].filter(Boolean).join('; '))
  if (source.kind === 'repository')
    return ok(name, [installed, `${source.url} has the package`].filter(Boolean).join('; '))
  if (installed) return ok(name, installed)
  if (agent.candidate && agent.candidate !== '(none)') return ok(name, `${agent.candidate}, to be installed`)
  return failed(
    name,
    'apt does not know dormouse-agent',
    'name its file with --package <file.deb>, or a repository with --repository <url> --signed-by <key file>',
  )
}

function enrolment({ facts: { agent }, hosts, name, upgrade }: Given): Check {
  const own = hosts.find(({ id }) => id === agent.hostId)
  if (own && own.state !== 'removed') return ok('enrolment', `enrolled as ${own.name}, ${own.id}`)
  if (agent.hostId)
    return failed(
      'enrolment',
      `its identity ${agent.hostId} is ${own ? 'removed' : 'not known'} here`,
      'check DORMOUSE_URL; to install it as a new host, run this with --uninstall first',
    )
  if (upgrade) return failed('enrolment', 'no host is enrolled there', 'run this without --upgrade')
  const namesake = hosts.find((host) => host.name === name && host.state !== 'removed')
  if (namesake) return failed('enrolment', `another host is called ${name}: ${namesake.id}`, 'give it another --name')
  return ok('enrolment', 'new')
}

const lookTimeoutMs = 120_000
const maxRows = 50
const maxChars = 300

/** What `dormouse-agent check` finds there. */
export async function askAgent(root: Root, urls: readonly string[], allowHttp: boolean): Promise<Check[]> {
  const words = ['check', urls.join(','), '--json', ...(allowHttp ? ['--allow-http'] : [])]
  const ended = await root.run('exec dormouse-agent "$@"', words, { timeoutMs: lookTimeoutMs })
  const rows = rowsIn(ended.stdout)
  if (rows) return rows
  return [failed('agent', `its check did not work: ${lastLines(ended)}`, 'on the host: dormouse-agent check')]
}

/** Undefined if it is no such document. A hostile host decides this text. */
export function rowsIn(text: string): Check[] | undefined {
  try {
    const { checks } = JSON.parse(text) as { checks: Partial<Record<keyof Check, unknown>>[] }
    return checks.slice(0, maxRows).map(({ name, result, detail, remedy }) => ({
      name: String(name).slice(0, maxChars),
      result: result === 'ok' || result === 'warning' ? result : 'failed',
      detail: String(detail).slice(0, maxChars),
      ...(remedy !== undefined && { remedy: String(remedy).slice(0, maxChars) }),
    }))
  } catch {
    return undefined
  }
}
