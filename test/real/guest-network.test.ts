// Guarantee: a guest has the address that its host gave it, also after a sleep; and if a host cannot hold guests to their
// addresses, they have no network. What guests reach: neighbours.test.ts.
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { createAdminClient, type Desktop } from '@dormouse/client'
import { LibvirtHost } from '@dormouse/node-libvirt'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { waitFor } from '../wait-for.ts'
import { Instance } from './parts/instance.ts'
import { NetworkedHost } from './parts/networked-host.ts'
import { makeNetworkedImage, networkedDesktop, networkedImagesDir } from './parts/networked-image.ts'
import { guest } from './parts/witness.ts'

let instance: Instance
let networked: NetworkedHost
let desktop: Desktop
beforeAll(async () => {
  await makeNetworkedImage()
  instance = await Instance.start({ DORMOUSE_TIER_SMALL: '1,256,10' }, ['--simulated', '1', '--no-tour'])
  networked = await NetworkedHost.start(instance, networkedImagesDir)
  desktop = await networkedDesktop(instance)
})
afterAll(async () => {
  await instance?.[Symbol.asyncDispose]()
  await networked?.[Symbol.asyncDispose]()
})

const addressOf = async (of: Desktop) =>
  (await guest(of, `ip -4 -o addr show eth0 | sed 's/.*inet \\([0-9.]*\\).*/\\1/'`)).trim()

test('the address is the one that libvirt keeps for the desktop', async () => {
  const host = await LibvirtHost.open({ socketPath: networked.libvirtd.socketPath })
  const [network] = await host.networks.list()
  const address = await waitFor(() => addressOf(desktop), 60_000)
  expect(await network?.xml()).toContain(`ip='${address}'`)
  expect((await network?.leases())?.map(({ ip }) => ip)).toEqual([address])
  host.close()
})

test('it has the same one after a sleep', async () => {
  const before = await addressOf(desktop)
  await desktop.hibernate()
  await desktop.wake()
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
  const plain = await networkedDesktop(instance)
  expect(await guest(plain, 'ls /sys/class/net')).toBe('lo\n')
  await plain.destroy()
})
