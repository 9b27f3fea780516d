// Guarantee: the rules around the guests' network say to the kernel what they say to a reader: which places are closed, what
// an opening opens, and which requests for an address come through. Without guests: a namespace stands for one.
import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseDestination } from '@dormouse/agent/driver/libvirt/allowed-destinations.ts'
import { Firewall } from '@dormouse/agent/driver/libvirt/firewall.ts'
import { GuestLimits } from '@dormouse/agent/driver/libvirt/guest-limits.ts'
import { createLog } from '@dormouse/process'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openPrivateHost, type PrivateHost } from '../../scripts/testbed/private-host.ts'

const closed = [
  '10.200.0.2',
  '100.100.100.200',
  '169.254.169.254',
  '168.63.129.16',
  '172.20.0.2',
  '192.0.0.192',
  '192.168.5.2',
  '198.18.0.2',
]
const open = ['203.0.113.2', '198.51.100.2']
const gateway = '10.9.0.1'
const [guestMac, otherMac] = ['520000000011', '520000000012']

const layOut = `set -e
mkdir -p /run/netns
ip link add dmt type bridge
ip addr add ${gateway}/24 dev dmt
ip link set dmt up
for name in guest neighbour outside; do ip netns add $name; done
ip link add vg type veth peer name eth0 address 52:00:00:00:00:11 netns guest
ip link add vn type veth peer name eth0 netns neighbour
ip link set vg master dmt up
ip link set vn master dmt up
ip -n guest addr add 10.9.0.11/24 dev eth0
ip -n neighbour addr add 10.9.0.12/24 dev eth0
ip link add up0 type veth peer name eth0 netns outside
ip addr add 203.0.113.1/24 dev up0
ip link set up0 up
for address in ${[...closed, '198.51.100.2'].map((ip) => `${ip}/32`).join(' ')} 203.0.113.2/24; do ip -n outside addr add $address dev eth0; done
for name in guest neighbour outside; do ip -n $name link set lo up; ip -n $name link set eth0 up; done
for name in guest neighbour; do ip -n $name route add default via ${gateway}; done
ip -n guest route add 10.9.0.12/32 via ${gateway}
ip -n neighbour route add 10.9.0.11/32 via ${gateway}
ip -n outside route add 10.9.0.0/24 via 203.0.113.1
ip route add default via 203.0.113.2
echo 1 >/proc/sys/net/ipv4/ip_forward
for name in guest neighbour outside; do ip netns exec $name busybox nc -ll -p 8080 -e echo $name >/dev/null 2>&1 </dev/null & done
for port in 8080 3128; do busybox nc -ll -p $port -e echo host >/dev/null 2>&1 </dev/null & done
`
/** Says of each request that reaches the DHCP server's port what it claims, until one with the last claim comes. */
const server = `socket(S,2,2,0);bind(S,pack("SnC4x8",2,67,0,0,0,0))or die$!;open(R,">","/run/serves");close(R);alarm 60;
while(defined recv(S,$b,2000,0)){last if substr($b,28,3)eq"end";
print unpack("H6",$b)," ",unpack("H12",substr($b,28))," ",unpack("H8",substr($b,24)),"\\n"}`

let folder: string
let host: PrivateHost
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'dormouse-firewall-'))
  const files = { record: join(folder, 'record'), logFile: join(folder, 'log') }
  host = await openPrivateHost({ name: 'walled', run: {}, over: {}, ...files, endsWithUs: true })
  await sh(layOut)
})
afterAll(async () => {
  await host?.powerOff()
  rmSync(folder, { recursive: true, force: true })
})

const sh = (script: string) => host.exec('/bin/sh', '-c', script)
const nft = (words: readonly string[], input?: string) => {
  if (input === undefined) return host.exec('nft', ...words)
  // A file of its own: two firewalls may load theirs at once.
  const file = join(folder, randomUUID())
  writeFileSync(file, input)
  return host.exec('nft', '-f', file)
}
const firewall = (table: string, ...allowed: string[]) =>
  new Firewall(
    { table, bridge: 'dmt', gateway, allowed: allowed.map(parseDestination) },
    createLog({ name: 'test', level: 'silent' }),
    nft,
  )

/** Which of those places answer a connection from there. */
async function answering(places: string[], from = 'guest'): Promise<string[]> {
  const ask = (at: string) => `(busybox nc -w 9 ${at.replace(':', ' ')} </dev/null >/dev/null 2>&1 && echo ${at}) &`
  const told = await sh(`exec ip netns exec ${from} /bin/sh -c '${places.map(ask).join(' ')} wait'`)
  return places.filter((at) => told.split('\n').includes(at))
}

const at = (port: number, ips: string[]) => ips.map((ip) => `${ip}:${port}`)
const hosts = [`${gateway}:8080`, `${gateway}:3128`, '203.0.113.1:8080']

test('without the firewall, every address is reachable', async () => {
  const all = [...at(8080, [...closed, ...open]), ...hosts, '10.9.0.12:8080']
  expect(await answering(all)).toEqual(all)
})

test('with the firewall, guests reach only the public internet, and only their host can connect to them', async () => {
  await firewall('dormouse_t').ensure()
  expect(await answering([...at(8080, [...closed, ...open]), ...hosts, '10.9.0.12:8080'])).toEqual(at(8080, open))
  expect(await answering(['10.9.0.11:8080'], 'outside')).toEqual([])
  expect(await sh('busybox nc -w 9 10.9.0.11 8080 </dev/null')).toBe('guest\n')
})

test('an allowed destination opens exactly its address, port and protocol', async () => {
  await firewall('dormouse_t', 'host:3128', '192.168.0.0/16', '10.200.0.2:8080', '172.20.0.2:8080/udp').ensure()
  const opened = ['192.168.5.2:8080', '10.200.0.2:8080', `${gateway}:3128`]
  expect(await answering([...at(8080, closed), ...hosts])).toEqual(
    [...at(8080, closed), ...hosts].filter((each) => opened.includes(each)),
  )
  await firewall('dormouse_t', '203.0.113.0/24', '10.9.0.0/24').ensure()
  expect(await answering([...hosts, '10.9.0.12:8080'])).toEqual([])
  await firewall('dormouse_t', '203.0.113.1:8080').ensure()
  expect(await answering(hosts)).toEqual(['203.0.113.1:8080'])
})

test('only DHCP requests with the guest’s own address pass, at a limited rate', async () => {
  await firewall('dormouse_t').ensure()
  const heard = host.exec('perl', '-e', server)
  await sh('until [ -e /run/serves ]; do :; done')
  const forged = [
    `010106 ${otherMac} 00000000`,
    `010107 ${guestMac} 00000000`,
    `020106 ${guestMac} 00000000`,
    `010106 ${guestMac} 0a09000c`,
    ...[0, 2, 4, 6, 8, 10].map((at) => `010106 ${guestMac!.slice(0, at)}ff${guestMac!.slice(at + 2)} 00000000`),
  ]
  const asked = [...forged, ...Array<string>(40).fill(`010106 ${guestMac} 00000000`)]
  await sh(`exec ip netns exec guest perl -e '${client}' ${asked.map((each) => `"${each}"`).join(' ')}`)
  await sh(`exec perl -e '${client}' "010106 656e64000000 00000000"`)
  const through = (await heard).trim().split('\n')
  expect(new Set(through)).toEqual(new Set([`010106 ${guestMac} 00000000`]))
  expect(through.length).toBeLessThan(40)
})

/** Sends such claims to the server from a client's port. */
const client = `socket(S,2,2,0);bind(S,pack("SnC4x8",2,68,0,0,0,0))or die$!;
for(@ARGV){($o,$m,$g)=split;send(S,pack("H6",$o).("\\0"x21).pack("H8",$g).pack("H12",$m).("\\0"x206),0,pack("SnC4x8",2,67,10,9,0,1))}`

test('changed rules are restored, another installation’s are left alone, and removing it removes them all', async () => {
  const [mine, theirs] = [firewall('dormouse_t'), firewall('dormouse_u')]
  await Promise.all([mine.ensure(), theirs.ensure()])
  await sh('nft flush chain inet dormouse_t beyond')
  expect(await answering(['10.200.0.2:8080'])).toEqual([])
  await theirs.remove()
  expect(await answering(['10.200.0.2:8080'])).toEqual(['10.200.0.2:8080'])
  await mine.ensure()
  expect(await answering(['10.200.0.2:8080'])).toEqual([])
  await mine.remove()
  expect(await sh('nft list tables')).not.toContain('dormouse')
})

const limits = () =>
  new GuestLimits({ table: 'dormouse_t_shares', bridge: 'dmt' }, createLog({ name: 'test', level: 'silent' }), nft)
const [guestIp, neighbourIp] = ['10.9.0.11', '10.9.0.12']
const unlimited = { packets_per_second: null, connections: null, kibPerSecond: null }

/** How many connections it gets that it keeps. */
const opened = async (count: number, from = 'guest') =>
  Number(await sh(`exec ip netns exec ${from} perl -MIO::Socket::INET -e '${opener}' ${count}`))
const opener = `for(1..shift){push @s,grep{$_}IO::Socket::INET->new(PeerAddr=>"203.0.113.2:8080",Timeout=>2)}print scalar(@s)`

test('a guest has no more connections than its share, and its neighbour has its own', async () => {
  await limits().set({ ip: guestIp, ...unlimited, connections: 5 })
  await limits().set({ ip: neighbourIp, ...unlimited, connections: 8 })
  expect(await Promise.all([opened(6), opened(9, 'neighbour')])).toEqual([5, 8])
  await limits().set({ ip: guestIp, ...unlimited })
  expect(await opened(12)).toBe(12)
})

/** How many of 300 packets come through that the guest sends at once. */
async function through(): Promise<number> {
  await sh('rm -f /run/counts')
  const heard = host.exec('ip', 'netns', 'exec', 'outside', 'perl', '-e', counter)
  await sh('until [ -e /run/counts ]; do :; done')
  await sh(`exec ip netns exec guest perl -e '${flood}' 300 data`)
  await sh(`exec perl -e '${flood}' 1 end`)
  return Number(await heard)
}
const counter = `socket(S,2,2,0);bind(S,pack("SnC4x8",2,9,0,0,0,0))or die$!;open(R,">","/run/counts");close(R);alarm 60;
while(defined recv(S,$b,2000,0)){last if $b eq"end";$n++}print$n+0`
const flood = `socket(S,2,2,0);($n,$w)=@ARGV;send(S,$w,0,pack("SnC4x8",2,9,203,0,113,2))for 1..$n`

test('packets and bytes over a guest’s share are dropped, and limits that were removed are set again', async () => {
  expect(await through()).toBe(300)
  await limits().set({ ip: guestIp, ...unlimited, packets_per_second: 10 })
  const fewer = await through()
  expect([fewer > 0, fewer < 150]).toEqual([true, true])
  await limits().set({ ip: guestIp, ...unlimited, kibPerSecond: 1 })
  expect(await through()).toBeLessThan(150)
  const listed = () => sh('nft -s list table inet dormouse_t_shares')
  const [before, later] = [await listed(), limits()]
  await later.ensure()
  await sh('nft delete table inet dormouse_t_shares')
  await later.ensure()
  expect(await listed()).toBe(before)
})
