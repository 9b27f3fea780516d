// The files of a Debian, made by mmdebstrap from the mirror that this machine uses. Each choice of packages is made once and kept.
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { run } from '../../scripts/testbed/processes.ts'

/** Remove the folder to get newer packages. */
export const keptMachines = fileURLToPath(new URL('../../.dormouse-test/machines', import.meta.url))

/** What a minimal installation with an SSH server has. */
const minimal = ['systemd', 'systemd-sysv', 'dbus', 'openssh-server', 'sudo', 'iproute2', 'ca-certificates']

/** Returns the folder with this release of Debian and these packages. It is for copies: nothing may change in it. */
export async function debianTree(suite: string, packages: readonly string[]): Promise<string> {
  const all = [...minimal, ...packages].join(',')
  const tree = join(keptMachines, `${suite}-${digestOf([suite, all])}`)
  if (existsSync(tree)) return tree
  const made = `${tree}.${process.pid}`
  mkdirSync(keptMachines, { recursive: true })
  try {
    await run('mmdebstrap', ['--quiet', '--variant=apt', `--include=${all}`, suite, made])
    renameSync(made, tree)
  } finally {
    rmSync(made, { recursive: true, force: true })
  }
  return tree
}

export function digestOf(parts: readonly string[]): string {
  return createHash('sha256').update(parts.join('\0')).digest('hex').slice(0, 12)
}
