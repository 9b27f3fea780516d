// What guests may reach, as rules for nftables: one table per installation, for its own bridge only. Pure text. It only
// drops packets; what it accepts, other tables may still drop.
import type { AllowedDestination } from './allowed-destinations.ts'

export interface FirewallSpec {
  /** The table's name, unique to the installation. */
  table: string
  /** The bridge of all the installation's guests. */
  bridge: string
  /** The host's own address there. */
  gateway: string
  /** What the operator allows. */
  allowed: readonly AllowedDestination[]
}

/**
 * Not the public internet: this network, private networks, carrier-grade NAT, link-local with its metadata services,
 * benchmarks, multicast, reserved. The last one is Azure's service for its own machines.
 */
const notPublic = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '224.0.0.0/3',
  '168.63.129.16',
]
/** Rejects instead of dropping: otherwise the sender's program would wait for minutes. */
const reject = ['meta l4proto tcp reject with tcp reset', 'reject with icmpx admin-prohibited']
const bytes = [0, 1, 2, 3, 4, 5]

/** Replaces the installation's table in one transaction, so there is no moment without it. */
export function firewallRules({ table, bridge, gateway, allowed }: FirewallSpec): string {
  return `table inet ${table}
delete table inet ${table}
table inet ${table} {
  set asking { type ether_addr; size 65535; flags dynamic,timeout; timeout 1m; }
  chain refuse {
${lines(reject)}
  }
  chain dhcp {
${lines(dhcp)}
  }
  chain to_host {
    type filter hook input priority filter - 10; policy accept;
    iifname != "${bridge}" accept
${lines([...toHost(gateway), ...allowed.filter(mayBeHost).map((destination) => accept(destination, gateway)), 'goto refuse'])}
  }
  chain beyond {
    type filter hook forward priority filter - 10; policy accept;
    oifname "${bridge}" ct direction reply accept
    oifname "${bridge}" goto refuse
    iifname != "${bridge}" accept
    meta nfproto != ipv4 drop
${lines([...allowed.filter(({ address }) => address !== 'host').map((destination) => accept(destination, gateway)), `ip daddr { ${notPublic.join(', ')} } goto refuse`])}
  }
}
`
}

/** Creates the table first, because a table that does not exist cannot be deleted. */
export const removal = (table: string): string => `table inet ${table}\ndelete table inet ${table}\n`

/**
 * The host's two services, DHCP and DNS, replies to connections of the host's own, and ping. DHCP comes first: the kernel
 * may take a request for a reply to the server's last packet.
 */
const toHost = (gateway: string): string[] => [
  'meta nfproto != ipv4 drop',
  `udp dport 67 ip daddr { 255.255.255.255, ${gateway} } jump dhcp`,
  'ct direction reply accept',
  `ip daddr ${gateway} meta l4proto { tcp, udp } th dport 53 accept`,
  `ip daddr ${gateway} icmp type echo-request accept`,
]

/**
 * A DHCP request from an Ethernet machine, through no relay, that names the MAC of its own frame; the filter on its port
 * ensures that the frame's MAC is its own. So no guest uses up or releases another's address. nftables cannot compare two
 * fields, so each byte is looked up among the 256 pairs of equal ones.
 */
const dhcp = [
  'meta iiftype != ether drop',
  '@th,64,24 != 0x010106 drop',
  '@th,256,32 != 0 drop',
  ...bytes.map((n) => `@ll,${48 + 8 * n},8 . @th,${288 + 8 * n},8 != { ${equalPairs()} } drop`),
  'update @asking { ether saddr limit rate over 5/second burst 20 packets } drop',
  'accept',
]

function equalPairs(): string {
  return Array.from({ length: 256 }, (_, byte) => `${byte} . ${byte}`).join(', ')
}

/** A network allows no service of a host that has an address in it: for the host an entry needs a port. */
const mayBeHost = ({ bits, port }: AllowedDestination): boolean => bits === 32 && port !== undefined

function accept({ address, bits, port, protocol }: AllowedDestination, gateway: string): string {
  const to = address === 'host' ? gateway : bits === 32 ? address : `${address}/${bits}`
  const at = port === undefined ? '' : `meta l4proto ${protocol ?? '{ tcp, udp }'} th dport ${port} `
  return `ip daddr ${to} ${at}accept`
}

const lines = (rules: string[]): string => rules.map((rule) => `    ${rule}`).join('\n')
