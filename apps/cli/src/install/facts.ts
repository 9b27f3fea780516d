// What a machine reports of itself before its agent can look: read by one script that changes nothing.
import type { Root } from './root.ts'

export interface Facts {
  distribution: { id: string; version: string; name: string }
  machine: string
  systemd: boolean
  /** Free in /var, where a package is put. */
  diskFreeMiB: number
  /** An agent that was installed by a development build, without a package. */
  hasEarlierBuild: boolean
  agent: {
    /** The version of its package. */
    installed?: string
    /** The version that apt would install. */
    candidate?: string
    /** The id in its identity. */
    hostId?: string
  }
}

/** One `name=value` per line. */
const script = `
. /etc/os-release 2>/dev/null
echo "id=$ID"; echo "version=$VERSION_ID"; echo "name=$PRETTY_NAME"
echo "machine=$(uname -m)"
[ -d /run/systemd/system ] && echo systemd=yes
echo "disk=$(df -Pm /var | awk 'NR == 2 { print $4 }')"
[ -e /opt/dormouse/agent ] && echo earlier=yes
dpkg-query -W -f='\${db:Status-Abbrev}=\${Version}\n' dormouse-agent 2>/dev/null | sed -n 's/^ii */installed/p'
apt-cache policy dormouse-agent 2>/dev/null | sed -n 's/^ *Candidate: */candidate=/p'
state=$(sed -n 's/^DORMOUSE_AGENT_STATE_DIR=//p' /etc/dormouse/agent.env 2>/dev/null | tail -n 1)
echo "host=$(sed -n 's/.*"hostId":"\\([0-9a-f-]*\\)".*/\\1/p' "\${state:-/var/lib/dormouse-agent}/identity.json" 2>/dev/null)"
true`

export async function readFacts(root: Root): Promise<Facts> {
  const next = 'check that it is Debian or Ubuntu, and can run commands'
  return parse(await root.must('reading its facts', next, script))
}

const maxChars = 100

/** Only the expected values, each cut: a hostile host decides this text. */
export function parse(text: string): Facts {
  const values = new Map<string, string>()
  for (const line of text.split('\n')) {
    const at = line.indexOf('=')
    if (at > 0) values.set(line.slice(0, at), line.slice(at + 1, at + 1 + maxChars).trim())
  }
  const word = (name: string) => values.get(name) || undefined
  const version = (name: string) => (/^[\w.+~:-]+$/.test(word(name) ?? '') ? word(name) : undefined)
  const host = word('host')
  const agent = {
    installed: version('installed'),
    candidate: version('candidate'),
    hostId: host && /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/.test(host) ? host : undefined,
  }
  return {
    distribution: { id: word('id') ?? '', version: word('version') ?? '', name: word('name') ?? 'unknown' },
    machine: word('machine') ?? 'unknown',
    systemd: word('systemd') === 'yes',
    diskFreeMiB: Number(word('disk') ?? 0) || 0,
    hasEarlierBuild: word('earlier') === 'yes',
    agent: Object.fromEntries(Object.entries(agent).filter(([, value]) => value !== undefined)),
  }
}
