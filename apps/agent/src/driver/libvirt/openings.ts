// What an operator opens to guests beyond the public internet, one entry of the setting at a time: pure text in, facts out.

/** A network, an address or a port that guests may reach. */
export interface Opening {
  /** An IPv4 address, or `host`: the host's own address on the guests' network. */
  address: string
  /** How much of the address counts; 32 is that address alone. */
  bits: number
  /** All ports where there is none. */
  port: number | undefined
  protocol: 'tcp' | 'udp' | undefined
}

const form = /^(?:(host)|(\d{1,3}(?:\.\d{1,3}){3})(?:\/(\d{1,2}))?)(?::(\d{1,5})(?:\/(tcp|udp))?)?$/
const linkLocal = { first: 169 * 2 ** 24 + 254 * 2 ** 16, bits: 16 }
const wanted = 'write 10.20.0.0/16, 10.20.0.5:5432, 10.20.0.5:53/udp or host:3128'

/** Reads `address[/bits][:port[/tcp|udp]]`. Throws a sentence that says what is wrong and what to write instead. */
export function readOpening(text: string): Opening {
  const [, host, ip = '', bitsText = '32', portText, protocol] = form.exec(text) ?? []
  const [bits, port] = [Number(bitsText), portText === undefined ? undefined : Number(portText)]
  const inRange = bits <= 32 && (port === undefined || (port > 0 && port < 65_536))
  if ((!host && !isAddress(ip)) || !inRange) throw new Error(`"${text}" is no address or port: ${wanted}`)
  if (host && port === undefined) throw new Error('"host" needs a port, such as host:3128')
  const opening = { address: host ?? ip, bits, port, protocol: protocol as Opening['protocol'] }
  if (!host && overlaps(opening)) {
    throw new Error(`"${text}" contains 169.254.0.0/16, where metadata services are: open smaller networks`)
  }
  return opening
}

const isAddress = (text: string): boolean => text !== '' && text.split('.').every((part) => Number(part) < 256)

function overlaps({ address, bits }: Opening): boolean {
  const shared = 2 ** (32 - Math.min(bits, linkLocal.bits))
  const first = address.split('.').reduce((sum, part) => sum * 256 + Number(part), 0)
  return Math.floor(first / shared) === Math.floor(linkLocal.first / shared)
}
