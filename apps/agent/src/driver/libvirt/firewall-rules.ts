// What guests may reach, in the words of nftables: one table for each installation, which looks at its own bridge and at
// nothing else. Pure text. It only ever drops; what it lets pass is still up to every other table.
import type { Opening } from './openings.ts'

export interface Enclosure {
  /** The table's name: no other installation has it. */
  table: string
  /** The bridge that all guests of the installation are on. */
  bridge: string
  /** The host's own address there. */
  gateway: string
  /** What the operator opens. */
  openings: readonly Opening[]
}

/**
 * Not the public internet: this network, private networks, carriers' networks, link-local with its metadata services,
 * benchmarks, multicast, what is reserved. The last is where one cloud answers its own machines.
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
/** Tells the sender's program at once, which would otherwise wait for minutes. */
const refusal = ['meta l4proto tcp reject with tcp reset', 'reject with icmpx admin-prohibited']
const bytes = [0, 1, 2, 3, 4, 5]

/** Replaces the installation's table as one transaction: there is no moment without it. */
export function firewallRules({ table, bridge, gateway, openings }: Enclosure): string {
  return `table inet ${table}
delete table inet ${table}
table inet ${table} {
  set asking { type ether_addr; size 65535; flags dynamic,timeout; timeout 1m; }
  chain refuse {
${lines(refusal)}
  }
  chain dhcp {
${lines(dhcp)}
  }
  chain to_host {
    type filter hook input priority filter - 10; policy accept;
    iifname != "${bridge}" accept
${lines([...toHost(gateway), ...openings.filter(isOfHost).map((opening) => accept(opening, gateway)), 'goto refuse'])}
  }
  chain beyond {
    type filter hook forward priority filter - 10; policy accept;
    oifname "${bridge}" ct direction reply accept
    oifname "${bridge}" goto refuse
    iifname != "${bridge}" accept
    meta nfproto != ipv4 drop
${lines([...openings.filter(({ address }) => address !== 'host').map((opening) => accept(opening, gateway)), `ip daddr { ${notPublic.join(', ')} } goto refuse`])}
  }
}
`
}

/** Empties the table first, for that which is not there cannot be deleted. */
export const removal = (table: string): string => `table inet ${table}\ndelete table inet ${table}\n`

/**
 * The host's two services, and answers to what the host itself began; the guest may also ask whether it is there. Requests
 * for an address are looked at first: to the kernel one may be an answer to the server's last word.
 */
const toHost = (gateway: string): string[] => [
  'meta nfproto != ipv4 drop',
  `udp dport 67 ip daddr { 255.255.255.255, ${gateway} } jump dhcp`,
  'ct direction reply accept',
  `ip daddr ${gateway} meta l4proto { tcp, udp } th dport 53 accept`,
  `ip daddr ${gateway} icmp type echo-request accept`,
]

/**
 * A request from an Ethernet machine, through no relay, that names the hardware address it really has (the filter on its
 * port sees to that one): nobody uses up addresses that are kept for others, or gives them back. nftables cannot compare
 * two fields, so each byte is looked up among the 256 pairs of equal ones.
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

/** A wide network opens no service of a host that happens to have an address in it: that takes a port. */
const isOfHost = ({ bits, port }: Opening): boolean => bits === 32 && port !== undefined

function accept({ address, bits, port, protocol }: Opening, gateway: string): string {
  const to = address === 'host' ? gateway : bits === 32 ? address : `${address}/${bits}`
  const at = port === undefined ? '' : `meta l4proto ${protocol ?? '{ tcp, udp }'} th dport ${port} `
  return `ip daddr ${to} ${at}accept`
}

const lines = (rules: string[]): string => rules.map((rule) => `    ${rule}`).join('\n')
