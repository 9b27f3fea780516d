// Guarantee: an image without a port for SSH is reached over its host's network, by the address that the host gave it; also
// after a sleep; and if a host cannot hold guests to their addresses, they have no network. What guests reach:
// neighbours.test.ts.
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { createAdminClient, createClient, type Desktop } from '@dormouse/client'
import { LibvirtHost } from '@dormouse/node-libvirt'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { waitFor } from '../wait-for.ts'
import { Instance } from './parts/instance.ts'
import { NetworkedHost } from './parts/networked-host.ts'
import { desktopOver, makeImages, networkedImagesDir, reachedOver } from './parts/transports.ts'
import { guest } from './parts/witness.ts'

let instance: Instance
let networked: NetworkedHost
let desktop: Desktop
beforeAll(async () => {
  await makeImages()
  instance = await Instance.start({ DORMOUSE_TIER_SMALL: '1,256,10' }, ['--simulated', '1', '--no-tour'])
  networked = await NetworkedHost.start(instance, networkedImagesDir)
  desktop = await desktopOver(instance, 'tcp')
})
afterAll(async () => {
  await instance?.[Symbol.asyncDispose]()
  await networked?.[Symbol.asyncDispose]()
})

const addressOf = async (of: Desktop) =>
  (await guest(of, `ip -4 -o addr show eth0 | sed 's/.*inet \\([0-9.]*\\).*/\\1/'`)).trim()

test('commands and files go over the network, and the address is the one that libvirt keeps for the desktop', async () => {
  const bytes = Buffer.alloc(2 * 1024 * 1024, 'all of this comes back')
  await desktop.files.write('/srv/file', bytes)
  expect(Buffer.from(await desktop.files.read('/srv/file')).equals(bytes)).toBe(true)
  const host = await LibvirtHost.open({ socketPath: networked.libvirtd.socketPath })
  const [network] = await host.networks.list()
  const address = await addressOf(desktop)
  expect(await network?.xml()).toContain(`ip='${address}'`)
  expect((await network?.leases())?.map(({ ip }) => ip)).toEqual([address])
  host.close()
})

test('a command in progress ends at once when its desktop sleeps, and the network works again when it wakes', async () => {
  const { base_url: baseUrl, api_key: apiKey } = instance.local
  const client = createClient({ baseUrl, apiKey, retries: 0 })
  const running = client.exec(desktop.id, { command: 'sleep 60' }).catch((error) => error.problem?.code)
  const before = await addressOf(desktop)
  await desktop.hibernate()
  expect(await running).toBe('exec_interrupted')
  await desktop.wake()
  const woken = performance.now()
  await reachedOver(instance, desktop, 'tcp')
  console.info(`over the network ${Math.round(performance.now() - woken)} ms after the wake`)
  expect(await addressOf(desktop)).toBe(before)
})

test('a desktop that is gone has left its address; without the filter guests have no network, and the host says why', async () => {
  await desktop.destroy()
  const host = await LibvirtHost.open({ socketPath: networked.libvirtd.socketPath })
  const [network] = await host.networks.list()
  expect(await network?.xml()).not.toContain('<host ')
  host.close()
  rmSync(join(networked.libvirtd.shortDir, 'libvirt/etc/nwfilter'), { recursive: true })
  await networked.libvirtd.restartDaemon()
  const admin = createAdminClient({ baseUrl: instance.local.base_url, operatorKey: instance.local.operator_key })
  const said = async () => JSON.stringify((await admin.listHosts()).hosts.find(({ name }) => name === networked.name))
  await waitFor(async () => (await said()).includes('does not have the filter'), 30_000)
  const plain = await desktopOver(instance, 'tcp', 'qga')
  expect(await guest(plain, 'ls /sys/class/net')).toBe('lo\n')
  await plain.destroy()
})
