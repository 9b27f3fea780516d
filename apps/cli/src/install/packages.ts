// The distribution's packages on a host, installed by apt.
import type { Facts } from './facts.ts'
import type { Root } from './root.ts'

const timeoutMs = 1_800_000

/** Those that are not installed. */
export function missingPackages({ packages }: Facts): string[] {
  return Object.entries(packages).flatMap(([name, { installed }]) => (installed ? [] : [name]))
}

/**
 * Finishes what an interrupted dpkg has left, then installs. The present package lists are tried first: updating them takes
 * longest. Waits for another apt instead of failing, and never prompts.
 */
const script = `
export DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1
exec 2>&1
apt() { apt-get --yes -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3 "$@" </dev/null; }
if [ -n "$(dpkg --audit)" ]; then dpkg --force-confold --configure -a </dev/null || apt --fix-broken install || exit 1; fi
install() { apt -o Dpkg::Options::=--force-confold install --no-install-recommends "$@"; }
install "$@" || { apt update && install "$@"; }`

/** Installs packages; those that are there stay as they are. */
export async function installPackages(root: Root, names: string[], show?: (line: string) => void): Promise<void> {
  const next = `look at it on the host: apt-get install --no-install-recommends ${names.join(' ')}; then run this again`
  await root.must('installing packages', next, script, names, { timeoutMs, onLine: show ?? (() => undefined) })
}
