// What a hostile guest sends: frames of its own making, byte by byte, and requests for addresses that are not its own.
// Each frame carries a mark, by which it is known again wherever it arrives.
import { readFileSync } from 'node:fs'
import { gzipSync } from 'node:zlib'
import type { Desktop } from '@dormouse/client'
import { guest } from './witness.ts'

/** Who is on the network, and where. */
export interface Party {
  mac: string
  ip: string
}

export interface Frame {
  name: string
  hex: string
}

const everybody = 'ffffffffffff'
const types = { ipv4: '0800', arp: '0806', ipv6: '86dd', vlan: '8100', provider: '88a8', unknown: '88b5' }
const words = 'dormouse:'

/** Every frame that `own` should not get through to `victim` or to the host, and those that it may send to the host. */
export function frames(own: Party, victim: Party, gateway: Party): Frame[] {
  const [me, them, host] = [own, victim, gateway].map(({ mac }) => mac.replaceAll(':', '')) as [string, string, string]
  const lines: Record<string, string> = {
    'straight to the neighbour': them + me + types.ipv4 + udp(own.ip, victim.ip),
    'to everybody': everybody + me + types.ipv4 + udp(own.ip, '255.255.255.255'),
    'a question for the neighbour’s address':
      everybody + me + types.arp + arp(1, own, { ...victim, mac: '000000000000' }),
    'an offer of addresses': everybody + me + types.ipv4 + udp(own.ip, '255.255.255.255', 67, 68),
    'the gateway’s address as its own, to the neighbour':
      them + me + types.arp + arp(2, { mac: me, ip: gateway.ip }, victim),
    'the neighbour’s address as its own, to the host':
      host + me + types.arp + arp(2, { mac: me, ip: victim.ip }, gateway),
    'from the neighbour’s hardware address': host + them + types.ipv4 + udp(own.ip, gateway.ip),
    'from the neighbour’s address': host + me + types.ipv4 + udp(victim.ip, gateway.ip),
    'itself as the IPv6 router of all': `333300000001${me}${types.ipv6}${ipv6('86')}`,
    'a question for an IPv6 neighbour': `3333ff000001${me}${types.ipv6}${ipv6('87')}`,
    'in a VLAN': `${them + me + types.vlan}0005${types.ipv4}${udp(own.ip, victim.ip)}`,
    'in a VLAN, to the host': `${host + me + types.vlan}0005${types.ipv4}${udp(own.ip, gateway.ip)}`,
    'in a VLAN within a VLAN': `${host}${me}${types.provider}0005${types.vlan}0006${types.ipv4}${udp(own.ip, gateway.ip)}`,
    'a word of a bridge': `0180c2000000${me}0026424203000000000000000000`,
    'of a kind that nobody knows': everybody + me + types.unknown,
    'as it should be': host + me + types.ipv4 + udp(own.ip, gateway.ip),
  }
  return Object.entries(lines).map(([name, hex], at) => ({ name, hex: `${hex}${markOf(at)}`.padEnd(180, '0') }))
}

const markOf = (at: number) => Buffer.from(`${words}${String.fromCharCode(97 + at)}`).toString('hex')

/** Which of the frames those marks are of, in their order. */
export const named = (sent: readonly Frame[], marks: string): string[] =>
  sent.filter((_, at) => marks.includes(String.fromCharCode(97 + at))).map(({ name }) => name)

const hexOf = (ip: string) =>
  ip
    .split('.')
    .map((part) => Number(part).toString(16).padStart(2, '0'))
    .join('')

function udp(from: string, to: string, source = 9, destination = 9): string {
  const header = `45000026000040004011${'0000'}${hexOf(from)}${hexOf(to)}`
  const sum = header.match(/.{4}/g)!.reduce((total, word) => total + Number.parseInt(word, 16), 0)
  const checksum = (~((sum & 0xffff) + (sum >>> 16)) & 0xffff).toString(16).padStart(4, '0')
  const ports = [source, destination].map((port) => port.toString(16).padStart(4, '0')).join('')
  return `${header.slice(0, 20)}${checksum}${header.slice(24)}${ports}00120000`
}

const arp = (operation: number, from: Party, to: Party): string =>
  `000108000604000${operation}${from.mac.replaceAll(':', '')}${hexOf(from.ip)}${to.mac.replaceAll(':', '')}${hexOf(to.ip)}`

/** A neighbour's message of that kind, from a link-local address to all. */
const ipv6 = (kind: string): string =>
  `6000000000203aff${'fe800000000000000000000000000066'}${'ff020000000000000000000000000001'}${kind}000000`

const interpreter = '/run/perl'
/** A socket for whole frames (AF_PACKET, SOCK_RAW), on that device. */
const socket = (device: number) =>
  `socket($s,17,3,unpack("S",pack("n",3)));$a=pack("SnisCCa8",17,3,${device},0,0,0,"");`

/** Puts there what sends and hears whole frames: an interpreter of the host's that needs no more than its libraries. */
export async function arm(desktop: Desktop): Promise<void> {
  // Packed: the guest agent takes half a minute for the whole of it.
  await desktop.files.write(`${interpreter}.gz`, new Uint8Array(gzipSync(readFileSync('/usr/bin/perl'))))
  await guest(desktop, `gunzip ${interpreter}.gz && chmod 755 ${interpreter}`)
}

/** Sends them as they are. */
export const send = (desktop: Desktop, sent: readonly Frame[]): Promise<string> =>
  guest(
    desktop,
    `${interpreter} -e '${socket(2)}send($s,pack("H*",$_),0,$a)for@ARGV' ${sent.map(({ hex }) => hex).join(' ')}`,
  )

/** A script that says the marks of all that comes in on a device, until one comes that says "end"; ready when the file is there. */
export const listening = (program: string, device: number, ready: string): string =>
  `${program} -e '$|=1;alarm 120;${socket(device)}bind($s,$a);open(R,">","${ready}");close(R);` +
  `while(defined recv($s,$b,2048,0)){print $1 if $b=~/${words}(.)/;last if $b=~/dormouse-end/}'`

export const hears = (desktop: Desktop): Promise<string> => guest(desktop, listening(interpreter, 2, '/run/listens'))

/** A DHCP message for that hardware address. */
export interface DhcpWish {
  mac: string
  /** 3 asks for the address, 4 says that another has it. */
  kind: 3 | 4
  ip: string
  hardware?: string
  relay?: string
}

/** Sends them to the server from the guest's own port for DHCP; answers to which hardware addresses it answered. */
export function dhcp(desktop: Desktop, server: string, wishes: DhcpWish[]): Promise<string> {
  const code =
    `socket(S,2,2,0);setsockopt(S,1,2,1);bind(S,pack("SnC4x8",2,68,0,0,0,0))or die$!;` +
    `send(S,pack("H*",$_),0,pack("SnC4x8",2,67,${server.replaceAll('.', ',')}))for@ARGV;` +
    `$SIG{ALRM}=sub{exit};alarm 2;print unpack("H*",substr($b,28,6)),"\n" while defined recv(S,$b,2048,0)`
  return guest(desktop, `${interpreter} -e '${code}' ${wishes.map((wish) => message(wish, server)).join(' ')}`)
}

function message({ mac, kind, ip, hardware = '010106', relay = '0.0.0.0' }: DhcpWish, server: string): string {
  const head = `${hardware}00${'64726d73'}00000000${'00000000'.repeat(3)}${hexOf(relay)}`
  const options = `63825363${`35010${kind}`}3204${hexOf(ip)}3604${hexOf(server)}ff`
  return `${head}${mac.replaceAll(':', '').padEnd(32, '0')}${'00'.repeat(192)}${options}`
}
