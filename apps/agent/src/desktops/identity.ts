// What makes a desktop of a copy of a template: a name, ids and keys of its own. Randomness and clock come with every news.
import { randomBytes } from 'node:crypto'
import type { DesktopId } from '@dormouse/contract'
import type { WakeNews } from '../driver/guest-access.ts'
import type { SealedGuest } from '../scripts/seal.ts'

const maxNameLength = 63

/** `keys` are the files of its SSH keys. */
export function identityOf(desktopId: DesktopId, guest: SealedGuest, keys: WakeNews['files'] = []): WakeNews {
  const own = `-${desktopId.slice(-12)}`
  const hostName = `${guest.hostName.slice(0, maxNameLength - own.length)}${own}`
  const files = [
    { path: '/etc/hostname', mode: 0o644, bytes: Buffer.from(`${hostName}\n`) },
    { path: '/etc/hosts', mode: 0o644, bytes: Buffer.from(hostsOf(guest, hostName)) },
    ...keys,
  ]
  if (guest.machineId)
    files.push({ path: '/etc/machine-id', mode: 0o444, bytes: Buffer.from(`${randomBytes(16).toString('hex')}\n`) })
  return { hostName, files }
}

/** The image's own lines, with the new name in place of the old one, or beside them. */
function hostsOf({ hosts, hostName }: SealedGuest, name: string): string {
  const lines = hosts.split('\n')
  const renamed = lines.map((line) => line.replace(/[^\s#]+/g, (word) => (word === hostName ? name : word)))
  return renamed.join('\n') === hosts ? `127.0.1.1 ${name}\n${hosts}` : renamed.join('\n')
}
