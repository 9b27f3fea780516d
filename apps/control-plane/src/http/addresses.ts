// Which address a request comes from: the other end of its connection or, where that is a proxy that the operator trusts,
// the one that the proxy names. Pure; counts nothing.
import type { IncomingMessage } from 'node:http'
import { isIP } from 'node:net'
import proxyAddr from '@fastify/proxy-addr'
import ipaddr from 'ipaddr.js'

type Connection = IncomingMessage['socket']

export class Addresses {
  readonly #isTrusted: ((address: string, hop: number) => boolean) | undefined

  /** Addresses and ranges of the proxies whose `X-Forwarded-For` counts; throws where one is neither. */
  constructor(proxies: readonly string[]) {
    const wrong = proxies.find((one) => !isIP(one.split('/', 1)[0]!))
    if (wrong) throw new TypeError(`${wrong} is no IP address or range`)
    this.#isTrusted = proxies.length > 0 ? proxyAddr.compile([...proxies]) : undefined
  }

  /** Whether others are heard through this connection. */
  isProxy({ remoteAddress }: Connection): boolean {
    return this.#isTrusted !== undefined && remoteAddress !== undefined && this.#isTrusted(remoteAddress, 0)
  }

  /** By what the requests of one caller are counted together, before anything else is known of him. */
  of(request: IncomingMessage): string {
    const { socket } = request
    if (!this.#isTrusted || !this.isProxy(socket)) return countedAs(socket.remoteAddress)
    const named = withoutPort(proxyAddr(request, this.#isTrusted))
    return countedAs(isIP(named) ? named : socket.remoteAddress)
  }
}

/** Whether each is an address or a range, and none is everybody. */
export function areProxies(list: readonly string[]): boolean {
  try {
    return new Addresses(list) !== undefined
  } catch {
    return false
  }
}

/** An IPv6 address counts as its /64, all of which one customer of a provider has. */
export function countedAs(address: string | undefined): string {
  if (!address?.includes(':')) return address ?? ''
  const known = ipaddr.process(address)
  if (known.kind() === 'ipv4') return known.toString()
  const network = (known as ipaddr.IPv6).parts.slice(0, 4)
  return `${network.map((part) => part.toString(16)).join(':')}::/64`
}

/** Some proxies name the port, too. */
function withoutPort(named: string | undefined): string {
  if (!named || isIP(named)) return named ?? ''
  return /^\[([^\]]+)\](?::\d+)?$/.exec(named)?.[1] ?? named.replace(/:\d+$/, '')
}
