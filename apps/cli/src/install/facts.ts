// What a machine reports of itself, read by one script that changes nothing.
import type { Root } from './root.ts'

/** The packages that a host needs. */
export const packages = [
  'qemu-system-x86',
  'qemu-utils',
  'libvirt-daemon-system',
  'iptables',
  'nftables',
  'dnsmasq-base',
] as const

export interface Facts {
  distribution: { id: string; version: string; name: string }
  machine: string
  systemd: boolean
  processors: number
  kvm: 'usable' | 'no flag' | 'no device'
  /** The version of each package: installed, or what apt would install. */
  packages: Record<string, { installed?: string; candidate?: string }>
  diskFreeMiB: number
  memoryMiB: number
  /** Its clock minus ours, in seconds, and by how much that may be wrong. */
  clock: { offsetSecs: number; errorSecs: number }
  /** An agent that is there: the id in its identity, and whether its unit runs. */
  agent: { hostId?: string; installationId?: string; hasSettings: boolean; active: boolean }
}

/** One `name=value` per line. */
const script = `
. /etc/os-release 2>/dev/null
echo "id=$ID"; echo "version=$VERSION_ID"; echo "name=$PRETTY_NAME"
echo "machine=$(uname -m)"
[ -d /run/systemd/system ] && echo systemd=yes
echo "processors=$(getconf _NPROCESSORS_ONLN)"
if ! grep -Eqw 'vmx|svm' /proc/cpuinfo; then echo 'kvm=no flag'
elif ! (: <>/dev/kvm) 2>/dev/null; then echo 'kvm=no device'; else echo kvm=usable; fi
dpkg-query -W -f='\${db:Status-Abbrev}:\${Package}=\${Version}\n' "$@" 2>/dev/null | sed -n 's/^ii *:/installed:/p'
apt-cache policy "$@" 2>/dev/null | awk '/^[^ ]/ { name = $1 } $1 == "Candidate:" { print "candidate:" name "=" $2 }' | sed 's/:=/=/'
echo "disk=$(df -Pm /var/lib | awk 'NR == 2 { print $4 }')"
echo "memory=$(awk '/^MemTotal:/ { print int($2 / 1024) }' /proc/meminfo)"
settings=/etc/dormouse/agent.env
[ -f $settings ] && echo settings=yes
state=$(sed -n 's/^DORMOUSE_AGENT_STATE_DIR=//p' $settings 2>/dev/null | tail -n 1)
identity=\${state:-/var/lib/dormouse-agent}/identity.json
echo "host=$(sed -n 's/.*"hostId":"\\([0-9a-f-]*\\)".*/\\1/p' "$identity" 2>/dev/null)"
echo "installation=$(sed -n 's/.*"installationId":"\\([0-9a-f-]*\\)".*/\\1/p' "$identity" 2>/dev/null)"
systemctl is-active --quiet dormouse-agent 2>/dev/null && echo active=yes
true`

/** Reads the facts. The clock is read alone: its error is half of that command's time. */
export async function readFacts(root: Root): Promise<Facts> {
  const read = 'reading its facts'
  const text = await root.must(read, 'check that it is Debian or Ubuntu, and can run commands', script, packages)
  const before = Date.now()
  const clock = await root.must(read, 'check its clock with `date`', 'date +%s.%N')
  const after = Date.now()
  const facts = parse(text)
  facts.clock = {
    offsetSecs: Number(clock.trim()) - (before + after) / 2_000,
    errorSecs: (after - before) / 2_000,
  }
  return facts
}

/** Only the expected values, each cut: a hostile host decides this text. */
export function parse(text: string): Facts {
  const values = new Map<string, string>()
  for (const line of text.split('\n')) {
    const at = line.indexOf('=')
    if (at > 0)
      values.set(
        line.slice(0, at),
        line
          .slice(at + 1)
          .trim()
          .slice(0, 100),
      )
  }
  const word = (name: string) => values.get(name) || undefined
  const number = (name: string) => Number(word(name) ?? 0) || 0
  const kvm = word('kvm')
  return {
    distribution: { id: word('id') ?? '', version: word('version') ?? '', name: word('name') ?? 'unknown' },
    machine: word('machine') ?? 'unknown',
    systemd: word('systemd') === 'yes',
    processors: number('processors'),
    kvm: kvm === 'usable' || kvm === 'no device' ? kvm : 'no flag',
    packages: Object.fromEntries(packages.map((name) => [name, versionOf(name, word)])),
    diskFreeMiB: number('disk'),
    memoryMiB: number('memory'),
    clock: { offsetSecs: 0, errorSecs: 0 },
    agent: {
      ...withoutUndefined({ hostId: idIn(word('host')), installationId: idIn(word('installation')) }),
      hasSettings: word('settings') === 'yes',
      active: word('active') === 'yes',
    },
  }
}

function versionOf(name: string, word: (name: string) => string | undefined) {
  const candidate = word(`candidate:${name}`)
  return withoutUndefined({
    installed: word(`installed:${name}`),
    candidate: candidate === '(none)' ? undefined : candidate,
  })
}

const idIn = (text: string | undefined): string | undefined =>
  text && /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/.test(text) ? text : undefined

function withoutUndefined<T extends object>(value: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(value).filter(([, each]) => each !== undefined)) as never
}
