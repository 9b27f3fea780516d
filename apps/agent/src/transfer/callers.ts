// Bounds the connections that have proved nothing yet: how many there are, and how often one address makes new ones. A new
// connection displaces the oldest of the same address first, so no address keeps another one out.
import type { Socket } from 'node:net'

const mostInAll = 64
const mostPerAddress = 8
/** A move opens three connections. Each TLS handshake takes this thread's time. */
const mostPerSec = 100
/** Addresses that are remembered with what they have left. */
const mostAddresses = 1_024

interface Allowance {
  left: number
  at: number
}

export class Callers {
  readonly #waiting = new Map<string, Socket>()
  readonly #allowances = new Map<string, Allowance>()

  /** Whether its handshake may begin; a socket above a limit, or an older one in its place, is destroyed. */
  admit(socket: Socket): boolean {
    const from = socket.remoteAddress ?? ''
    if (!this.#mayCall(from)) {
      socket.destroy()
      return false
    }
    const end = endOf(socket)
    this.#waiting.set(end, socket)
    socket.once('close', () => this.#waiting.delete(end))
    const waiting = [...this.#waiting.values()]
    const own = waiting.filter(({ remoteAddress }) => remoteAddress === from)
    if (own.length > mostPerAddress) own[0]!.destroy()
    else if (waiting.length > mostInAll) waiting[0]!.destroy()
    return true
  }

  /** It has proved which move it is for. */
  proved(socket: Socket): void {
    this.#waiting.delete(endOf(socket))
  }

  close(): void {
    for (const socket of this.#waiting.values()) socket.destroy()
  }

  /** This many at once, and this many a second. */
  #mayCall(from: string): boolean {
    const now = performance.now()
    const { left, at } = this.#allowances.get(from) ?? { left: mostPerSec, at: now }
    const allowance = { left: Math.min(mostPerSec, left + ((now - at) * mostPerSec) / 1_000), at: now }
    this.#allowances.delete(from)
    this.#allowances.set(from, allowance)
    const [oldest] = this.#allowances.keys()
    if (this.#allowances.size > mostAddresses) this.#allowances.delete(oldest!)
    if (allowance.left < 1) return false
    allowance.left -= 1
    return true
  }
}

const endOf = ({ remoteAddress, remotePort }: Socket): string => `${remoteAddress} ${remotePort}`
