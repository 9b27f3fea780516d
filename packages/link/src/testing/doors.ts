// Upgrades whose refusals are bare problem documents. Knows no table of refusals.
import { type Server, STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import type { LinkLog } from '../link-log.ts'
import { acceptUpgrades, UpgradeRefusal, type Upgrades } from '../upgrades.ts'

/** Takes over the server's upgrade requests; add routes to it. */
export function openDoors(server: Server, log?: LinkLog): Upgrades {
  return acceptUpgrades(server, { log, answer: inBrief, nowhere: new UpgradeRefusal(404, 'there is no such path') })
}

/** Writes a problem body by hand: an upgrade request has no response object. */
function inBrief(socket: Duplex, { status, detail, headers }: UpgradeRefusal): void {
  if (socket.destroyed) return
  const title = STATUS_CODES[status] ?? 'Refused'
  const body = JSON.stringify({ type: 'about:blank', title, status, detail })
  const lines = Object.entries({
    ...headers,
    'content-type': 'application/problem+json',
    'content-length': String(Buffer.byteLength(body)),
    connection: 'close',
  }).map(([name, value]) => `${name}: ${value}\r\n`)
  socket.end(`HTTP/1.1 ${status} ${title}\r\n${lines.join('')}\r\n${body}`, () => socket.destroy())
}
