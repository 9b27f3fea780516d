// The destinations that an operator allows guests to reach besides the public internet: each entry of the setting is parsed.

/** A network, an address or a port that guests may reach. */
export interface AllowedDestination {
  /** An IPv4 address, or `host`: the host's own address on the guests' network. */
  address: string
  /** The prefix length; 32 is that address alone. */
  bits: number
  /** Undefined allows all ports. */
  port: number | undefined
  protocol: 'tcp' | 'udp' | undefined
}

const form = /^(?:(host)|(\d{1,3}(?:\.\d{1,3}){3})(?:\/(\d{1,2}))?)(?::(\d{1,5})(?:\/(tcp|udp))?)?$/
const linkLocal = { first: 169 * 2 ** 24 + 254 * 2 ** 16, bits: 16 }
const examples = 'write 10.20.0.0/16, 10.20.0.5:5432, 10.20.0.5:53/udp or host:3128'

/** Parses `address[/bits][:port[/tcp|udp]]`. Throws a sentence that says what is wrong and what to write instead. */
export function parseDestination(text: string): AllowedDestination {
  const [, host, ip = '', bitsText = '32', portText, protocol] = form.exec(text) ?? []
  const [bits, port] = [Number(bitsText), portText === undefined ? undefined : Number(portText)]
  const inRange = bits <= 32 && (port === undefined || (port > 0 && port < 65_536))
  if ((!host && !isAddress(ip)) || !inRange) throw new Error(`"${text}" is not an address or port; ${examples}`)
  if (host && port === undefined) throw new Error('"host" needs a port, such as host:3128')
  const destination = { address: host ?? ip, bits, port, protocol: protocol as AllowedDestination['protocol'] }
  if (!host && overlapsLinkLocal(destination)) {
    throw new Error(`"${text}" contains 169.254.0.0/16, where metadata services are; allow smaller networks`)
  }
  return destination
}

const isAddress = (text: string): boolean => text !== '' && text.split('.').every((part) => Number(part) < 256)

function overlapsLinkLocal({ address, bits }: AllowedDestination): boolean {
  const shared = 2 ** (32 - Math.min(bits, linkLocal.bits))
  const first = address.split('.').reduce((sum, part) => sum * 256 + Number(part), 0)
  return Math.floor(first / shared) === Math.floor(linkLocal.first / shared)
}
