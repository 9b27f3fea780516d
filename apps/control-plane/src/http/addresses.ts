// The client address of a request: the peer of its connection or, if that is a trusted proxy, the address that the proxy
// names. Pure; counts nothing.
import type { IncomingMessage } from 'node:http'
import { isIP } from 'node:net'
import proxyAddr from '@fastify/proxy-addr'
import ipaddr from 'ipaddr.js'

type Connection = IncomingMessage['socket']

export class Addresses {
  readonly #isTrusted: ((address: string, hop: number) => boolean) | undefined

  /** Addresses and ranges of the trusted proxies; throws if one is neither. */
  constructor(proxies: readonly string[]) {
    const wrong = proxies.find((one) => !isIP(one.split('/', 1)[0]!))
    if (wrong) throw new TypeError(`${wrong} is not an IP address or range`)
    this.#isTrusted = proxies.length > 0 ? proxyAddr.compile([...proxies]) : undefined
  }

  /** Whether the connection's peer is a trusted proxy. */
  isProxy({ remoteAddress }: Connection): boolean {
    return this.#isTrusted !== undefined && remoteAddress !== undefined && this.#isTrusted(remoteAddress, 0)
  }

  /** The address by which an unauthenticated client is counted. */
  of(request: IncomingMessage): string {
    const { socket } = request
    if (!this.#isTrusted || !this.isProxy(socket)) return countedAs(socket.remoteAddress)
    const named = withoutPort(proxyAddr(request, this.#isTrusted))
    return countedAs(isIP(named) ? named : socket.remoteAddress)
  }
}

/** Whether each is an address or a range, and none covers all addresses. */
export function areProxies(list: readonly string[]): boolean {
  try {
    return new Addresses(list) !== undefined
  } catch {
    return false
  }
}

/** An IPv6 address counts as its /64, which one customer of a provider has whole. */
export function countedAs(address: string | undefined): string {
  if (!address?.includes(':')) return address ?? ''
  const known = ipaddr.process(address)
  if (known.kind() === 'ipv4') return known.toString()
  const network = (known as ipaddr.IPv6).parts.slice(0, 4)
  return `${network.map((part) => part.toString(16)).join(':')}::/64`
}

/** Some proxies add the port. */
function withoutPort(named: string | undefined): string {
  if (!named || isIP(named)) return named ?? ''
  return /^\[([^\]]+)\](?::\d+)?$/.exec(named)?.[1] ?? named.replace(/:\d+$/, '')
}
