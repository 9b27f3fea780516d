// Guarantee: a desktop of the distribution's own system that begins with a template has a network card of its own and the address that
// its host keeps for it, as soon as it asks, after each sleep, and after it has booted again.
import { readlinkSync } from 'node:fs'
import { basename, join } from 'node:path'
import { gatewayOf, macOf, readHosts, readSubnet } from '@dormouse/agent/driver/libvirt/network-xml.ts'
import { createAdminClient, type Desktop } from '@dormouse/client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ensureDesktopImage } from '../../infra/guest-image/desktop.ts'
import { run } from '../../scripts/testbed/processes.ts'
import { Instance } from '../real/parts/instance.ts'
import { NetworkedHost } from '../real/parts/networked-host.ts'
import { guest } from '../real/parts/witness.ts'
import { waitFor } from '../wait-for.ts'

const imagesDir = join(import.meta.dirname, '../../.dormouse-test/images')
const templateMs = 900_000

let instance: Instance
let networked: NetworkedHost
let image: string
beforeAll(async () => {
  await ensureDesktopImage({ imagesDir, say: console.log })
  image = basename(readlinkSync(join(imagesDir, 'desktop')))
  const settings = { DORMOUSE_TIER_DEFAULT: '2,1024,10', DORMOUSE_WAKE_DEADLINE_SECS: '900' }
  instance = await Instance.start(settings, ['--simulated', '1', '--no-tour'])
  const { base_url: baseUrl, operator_key: operatorKey } = instance.local
  const admin = createAdminClient({ baseUrl, operatorKey })
  const [simulated] = (await admin.listHosts()).hosts
  await admin.cordonHost(simulated!.id)
  networked = await NetworkedHost.start(instance, imagesDir)
  await networked.killAgent({ DORMOUSE_AGENT_TEMPLATES_MIB: '8192' })
  const [name, version] = image.split('@') as [string, string]
  await admin.addImage({ name, version, from: join(imagesDir, image), prefetch: true })
  const hosts = async () => (await admin.listImages()).images.flatMap((each) => each.hosts)
  const isMade = async () =>
    (await hosts()).some(({ host_name, templates }) => host_name === networked.name && templates === 1)
  await waitFor('the template', isMade, templateMs)
}, 1_200_000)
afterAll(async () => {
  await instance?.[Symbol.asyncDispose]()
  await networked?.[Symbol.asyncDispose]()
})

const virsh = (...words: string[]) =>
  run('virsh', ['-q', '-c', `qemu+unix:///system?socket=${networked.libvirtd.socketPath}`, ...words])

/** The guests' network, as libvirt has it. */
async function network() {
  const name = (await virsh('net-list', '--name')).trim()
  const xml = await virsh('net-dumpxml', name)
  return { name, gateway: gatewayOf(readSubnet(xml)!), addresses: readHosts(xml) }
}

const look = `for at in /sys/class/net/e*; do echo "\${at##*/} $(cat $at/address) $(ip -4 -o addr show dev \${at##*/} scope global)"; done
ip -4 route show default; hostname`

/** Its only card, as soon as that has an address. */
const cardOf = (desktop: Desktop) =>
  waitFor('an address', async () => {
    const [card = '', route = '', hostName] = (await guest(desktop, look)).split('\n')
    const [, mac, ip] = /^\S+ ([\da-f:]{17}) .*inet ([\d.]+)/.exec(card) ?? []
    const [, gateway] = /^default via ([\d.]+) /.exec(route) ?? []
    return mac && ip && gateway ? { mac, ip, gateway, hostName } : undefined
  })

/** Asks the DNS server of its host, which is on no other network, and returns the number of the question. */
const ask = (gateway: string) => `python3 - <<'end'
import socket
asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
asking.settimeout(2)
for _ in range(10):
    try:
        asking.sendto(bytes.fromhex('12340100000100000000000001610000010001'), ('${gateway}', 53))
        print(asking.recv(512)[:2].hex())
        break
    except OSError: pass
end`

/** It has the card and the address that its host keeps for it, and reaches its host. */
async function expectOwnNetwork(desktop: Desktop) {
  const mac = macOf(desktop.id)
  const began = performance.now()
  const card = await cardOf(desktop)
  console.info(`an address after ${Math.round(performance.now() - began)} ms`)
  const { gateway, addresses } = await network()
  expect(card).toEqual({ mac, ip: addresses.get(mac), gateway, hostName: `desktop-${desktop.id.slice(-12)}` })
  expect(await guest(desktop, ask(gateway))).toBe('1234\n')
  return card
}

async function begun(): Promise<Desktop> {
  const desktop = await instance.create({ tier: 'default', imageVersion: image })
  expect((await desktop.wake()).result).toMatchObject({ resumedFrom: 'image', path: 'template' })
  return desktop
}

const bootOf = (desktop: Desktop) => guest(desktop, 'cat /proc/sys/kernel/random/boot_id')

test('two desktops of one template have a card and an address each, which they keep', async () => {
  const first = await begun()
  const card = await expectOwnNetwork(first)
  const second = await begun()
  const other = await expectOwnNetwork(second)
  for (const part of ['mac', 'ip', 'hostName'] as const) expect(other[part]).not.toBe(card[part])

  const leases = (await virsh('net-dhcp-leases', (await network()).name)).split('\n')
  for (const { mac, ip } of [card, other]) {
    const mine = leases.filter((lease) => lease.includes(mac))
    expect(mine).toEqual([expect.stringMatching(`${ip}/.*01:${mac}`)])
  }

  await second.hibernate()
  await first.hibernate()
  await first.wake()
  expect(await expectOwnNetwork(first)).toEqual(card)
  await second.wake()
  expect(await expectOwnNetwork(second)).toEqual(other)

  const boot = await bootOf(first)
  await guest(first, 'systemctl reboot --no-block')
  await waitFor('the guest to have booted again', async () => (await bootOf(first).catch(() => boot)) !== boot, 300_000)
  expect(await expectOwnNetwork(first)).toEqual(card)
  expect(await expectOwnNetwork(second)).toEqual(other)
  await Promise.all([first.destroy(), second.destroy()])
  expect((await network()).addresses).toEqual(new Map())
})
