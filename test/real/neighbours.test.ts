// Guarantee: whatever a guest sends, it reaches the public internet and two services of its host; no other guest, neither
// directly nor by way of the host, no other service of the host, no metadata service and no private network that its
// operator did not open. And the wall is put up again when somebody takes it down.
import type { Desktop } from '@dormouse/client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { waitFor } from '../wait-for.ts'
import { Instance } from './parts/instance.ts'
import { arm, dhcp, frames, hears, listening, named, type Party, send } from './parts/intruder.ts'
import { NetworkedHost } from './parts/networked-host.ts'
import { makeNetworkedImage, networkedDesktop, networkedImagesDir } from './parts/networked-image.ts'
import { Surroundings } from './parts/surroundings.ts'
import { guest } from './parts/witness.ts'

let instance: Instance
let networked: NetworkedHost
let around: Surroundings
let intruder: Desktop
let victim: Desktop
let own: Party
let theirs: Party
let gateway: Party
beforeAll(async () => {
  await makeNetworkedImage()
  instance = await Instance.start(
    {
      DORMOUSE_TIER_SMALL: '1,256,10',
      DORMOUSE_TIER_SMALL_SHARES: 'network=25,packets=5000,connections=300',
      DORMOUSE_HEARTBEAT_SECS: '1',
    },
    ['--simulated', '1', '--no-tour'],
  )
  networked = await NetworkedHost.start(instance, networkedImagesDir)
  around = await Surroundings.of(networked)
  ;[intruder, victim] = await Promise.all([networkedDesktop(instance), networkedDesktop(instance)])
  ;[own, theirs] = await Promise.all([partyOf(intruder), partyOf(victim)])
  gateway = around.gateway
  await Promise.all([arm(intruder), serve(victim)])
})
afterAll(async () => {
  await instance?.[Symbol.asyncDispose]()
  await networked?.[Symbol.asyncDispose]()
})

async function partyOf(desktop: Desktop): Promise<Party> {
  const address = 'ip -4 -o addr show eth0'
  const words = await guest(
    desktop,
    `until ${address} | grep inet; do sleep 0.1; done; cat /sys/class/net/eth0/address`,
  )
  const [, ip, mac] = /inet ([\d.]+)[\s\S]*\n(\S+)\n$/.exec(words)!
  return { mac: mac!, ip: ip! }
}

const serve = (desktop: Desktop) =>
  guest(
    desktop,
    'nc -ll -p 8080 -e echo neighbour >/dev/null 2>&1 </dev/null & udhcpc -i eth0 -n -q -x hostname:secret',
  )

/** What answers there, by its name. */
async function reached(addresses: Record<string, string>): Promise<Record<string, string>> {
  const ask = ([what, at]: [string, string]) =>
    `(echo "${what}=$(nc -w 9 ${at.replace(':', ' ')} </dev/null 2>/dev/null)") & `
  const told = await guest(intruder, `${Object.entries(addresses).map(ask).join('')} wait`)
  return Object.fromEntries(
    told
      .trim()
      .split('\n')
      .map((line) => line.split('=') as [string, string]),
  )
}

const places = () => ({
  internet: '203.0.113.2:8080',
  'metadata service': '169.254.169.254:8080',
  'metadata service of a cloud': '168.63.129.16:8080',
  'host at the gateway’s address': `${gateway.ip}:8080`,
  'host at another address': '203.0.113.1:8080',
  'host at a private address': '192.168.77.1:8080',
  'private network': '192.168.77.2:8080',
  'guest of another installation': `${around.stranger}:8080`,
  'host on the network of another installation': `${around.strangersGateway}:8080`,
  'neighbour by way of the host': `${theirs.ip}:8080`,
})
const nowhere = () => Object.fromEntries(Object.keys(places()).map((what) => [what, '']))

test('a guest reaches the internet and nothing else, even if a neighbour helps it', async () => {
  const detour = (to: string) =>
    `echo 0 | tee /proc/sys/net/ipv4/conf/*/accept_redirects; ip route add ${to}/32 via ${gateway.ip}`
  await Promise.all([guest(intruder, detour(theirs.ip)), guest(victim, detour(own.ip))])
  expect(await reached(places())).toEqual({ ...nowhere(), internet: 'outside' })
  expect(await around.reaches(`${theirs.ip}:8080`)).toBe('neighbour')
})

test('its host answers DNS and ping; it reveals no neighbour’s name and speaks no IPv6', async () => {
  const lookUp = (name: string) => guest(intruder, `nslookup ${name} ${gateway.ip} 2>&1 || :`)
  expect(await lookUp(networked.name)).toContain('127.0.0.1')
  expect(await lookUp('secret')).not.toContain(theirs.ip)
  expect(await lookUp(theirs.ip)).not.toContain('secret')
  expect(await guest(intruder, `ping -c 1 -W 2 ${gateway.ip}`)).toContain('1 packets received')
  expect(await guest(intruder, `ping -c 1 -W 1 203.0.113.1 || :`)).toContain('0 packets received')
  expect(await guest(intruder, `ping -6 -c 1 -W 1 ff02::1%eth0 2>&1 || :`)).not.toContain('1 packets received')
})

test('forged packets reach neither host nor neighbour', async () => {
  const sent = frames(own, theirs, gateway)
  const atVictim = arm(victim).then(() => hears(victim))
  const atHost = around.exec('/bin/sh', '-c', listening('perl', around.bridgeIndex, '/run/listens'))
  await guest(victim, 'until [ -e /run/listens ]; do :; done')
  await around.exec('/bin/sh', '-c', 'until [ -e /run/listens ]; do :; done')
  await send(intruder, sent)
  await around.sayEnd(theirs.ip)
  expect(named(sent, await atVictim)).toEqual([])
  const lawful = ['to everybody', 'a question for the neighbour’s address', 'an offer of addresses', 'as it should be']
  expect(named(sent, await atHost)).toEqual(lawful)
})

test('DHCP gives it only its own address, and it cannot release another’s', async () => {
  const free = around.freeAddress
  const answered = await dhcp(intruder, gateway.ip, [
    { mac: own.mac, kind: 3, ip: own.ip },
    { mac: '52:00:00:00:00:01', kind: 3, ip: free },
    { mac: own.mac, hardware: '010107', kind: 3, ip: free },
    { mac: theirs.mac, relay: theirs.ip, kind: 3, ip: theirs.ip },
    { mac: theirs.mac, kind: 4, ip: theirs.ip },
  ])
  expect(answered).toBe(`${own.mac.replaceAll(':', '')}\n`)
  const inShort = ({ mac, ip }: { mac?: string; ip: string }) => `${mac} ${ip}`
  expect((await around.leases()).map(inShort).sort()).toEqual([own, theirs].map(inShort).sort())
  expect(await guest(victim, 'udhcpc -i eth0 -n -q -t 3 2>&1')).toContain(`lease of ${theirs.ip} obtained`)
})

test('the host limits what each guest sends, opens and transfers to the shares of its tier', async () => {
  const listed = await around.exec('sh', '-c', 'nft -s list ruleset')
  const chain = (way: string, { ip }: Party) =>
    new RegExp(`chain ${way}_${ip.replaceAll('.', '_')} \\{([^}]*)\\}`).exec(listed)?.[1]
  for (const party of [own, theirs]) {
    expect(chain('from', party)).toContain('limit rate over 5000/second')
    expect(chain('from', party)).toContain('ct count over 300')
  }
  // The traffic by libvirt, or by these rules too if the kernel lacks what libvirt needs.
  const classes = await around.exec(
    'sh',
    '-c',
    'for port in /sys/class/net/vnet*; do tc class show dev $(basename $port); done',
  )
  expect(`${classes}${chain('to', own)}`).toMatch(/rate (over 3052 kbytes|2500\dKbit)/)
})

test('a deleted firewall is restored, and the other installation’s is left alone', async () => {
  const tables = () => around.exec('nft', 'list', 'tables')
  const [table] = /dormouse_\w{12}/.exec(await tables())!
  await around.exec('nft', 'add', 'table', 'inet', 'dormouse_other')
  await around.exec('nft', 'delete', 'table', 'inet', table)
  await waitFor(async () => (await tables()).includes(table))
  expect(await tables()).toContain('dormouse_other')
})

test('allowed destinations become reachable, also for guests that are awake, and nothing else does', async () => {
  await networked.killAgent({ DORMOUSE_AGENT_NETWORK_ALLOW: 'host:8080, 192.168.77.0/24' })
  const opened = { internet: 'outside', 'host at the gateway’s address': 'host', 'private network': 'outside' }
  await waitFor(async () => (await around.exec('nft', 'list', 'ruleset')).includes('192.168.77.0/24'))
  await waitFor(() =>
    guest(intruder, 'true').then(
      () => true,
      () => false,
    ),
  )
  expect(await reached(places())).toEqual({ ...nowhere(), ...opened })
})
