// Guarantee: over the API, new desktops begin with a template once their host has one: each with an address of its own, and as
// movable as any other.
import { fileURLToPath } from 'node:url'
import { createAdminClient, type Desktop } from '@dormouse/client'
import { expect, test } from 'vitest'
import { waitFor } from '../wait-for.ts'
import { Instance } from './parts/instance.ts'
import { NetworkedHost } from './parts/networked-host.ts'
import { type RealHost, realHosts } from './parts/real-hosts.ts'
import { serveImage } from './parts/served-image.ts'
import { clockError, expectKept, guest, leaveWitness } from './parts/witness.ts'

const many = 6
const withTemplates = { DORMOUSE_AGENT_TEMPLATES_MIB: '4096' }
const images = fileURLToPath(new URL('../../.dormouse-test/images', import.meta.url))

const adminOf = ({ local: { base_url: baseUrl, operator_key: operatorKey } }: Instance) =>
  createAdminClient({ baseUrl, operatorKey })

async function woken(instance: Instance): Promise<{ desktop: Desktop; path: string | undefined; ms: number }> {
  const desktop = await instance.create()
  const began = performance.now()
  const { result } = await desktop.wake()
  return { desktop, path: result?.path, ms: Math.round(performance.now() - began) }
}

/** The image has been booted on the only host that takes desktops, which then has a template of it. */
async function templateMade(instance: Instance): Promise<number> {
  const { desktop, path, ms } = await woken(instance)
  expect(path).toBe('boot')
  await waitFor(
    async () => (await adminOf(instance).listHosts()).hosts.some(({ templates }) => templates?.length),
    120_000,
  )
  await desktop.destroy()
  return ms
}

/** Its device and its address, as soon as it has one. */
const networkOf = (desktop: Desktop) =>
  waitFor(async () => {
    const seen = await guest(desktop, 'cat /sys/class/net/eth0/address; ip -4 -o addr show eth0 || true')
    const [, mac, ip] = /^([\da-f:]{17})\n.*inet ([\d.]+)/.exec(seen) ?? []
    return mac && ip ? { mac, ip } : undefined
  })

test('the desktops of an image begin with its template, each with a name and an address of its own', async () => {
  await using instance = await Instance.start({ DORMOUSE_TIER_SMALL: '1,256,10' }, ['--simulated', '1', '--no-tour'])
  const [simulated] = (await adminOf(instance).listHosts()).hosts
  await using networked = await NetworkedHost.start(instance, images)
  await networked.killAgent(withTemplates)
  await adminOf(instance).cordonHost(simulated!.id)
  const hasTemplates = async () =>
    (await adminOf(instance).listHosts()).hosts.some(
      ({ name, linked, templates }) => name === networked.name && linked && templates,
    )
  await waitFor(hasTemplates, 60_000)
  const bootMs = await templateMade(instance)
  const desktops: Desktop[] = []
  const times: number[] = []
  for (let n = 0; n < many; n++) {
    const { desktop, path, ms } = await woken(instance)
    expect(path).toBe('template')
    desktops.push(desktop)
    times.push(ms)
  }
  console.info(`first wakes: ${bootMs} ms by a boot, ${times.join(', ')} ms by a template`)
  const networks = await Promise.all(desktops.map(networkOf))
  for (const part of ['mac', 'ip'] as const) expect(new Set(networks.map((each) => each[part])).size).toBe(many)
  const names = await Promise.all(desktops.map((desktop) => guest(desktop, 'hostname')))
  expect(new Set(names).size).toBe(many)
  for (const desktop of desktops) expect(await clockError(desktop)).toBeLessThan(2)
  const [desktop] = desktops as [Desktop]
  await desktop.hibernate()
  await desktop.wake()
  expect(await networkOf(desktop)).toEqual(networks[0])
  await Promise.all(desktops.map((each) => each.destroy()))
})

test('it moves to a host without the template, awake and asleep', async () => {
  await using instance = await Instance.start(withTemplates, ['--no-tour', '--hosts', '2'])
  const [from, to] = (await realHosts(instance)) as [RealHost, RealHost]
  const admin = adminOf(instance)
  await admin.cordonHost(to.id)
  await templateMade(instance)
  const { desktop, path } = await woken(instance)
  expect(path).toBe('template')
  await admin.uncordonHost(to.id)
  const seen = await leaveWitness(desktop, 8)
  const moved = async () => (await admin.waitForOperation((await admin.moveDesktop(desktop.id, {})).id)).result
  expect(await moved()).toMatchObject({ desktop_state: 'awake', host_id: to.id, moved: 'live' })
  await expectKept(desktop, seen)
  await desktop.hibernate()
  expect(await moved()).toMatchObject({ desktop_state: 'hibernated', host_id: from.id })
  await desktop.wake()
  await expectKept(desktop, seen)
  await desktop.destroy()
})

test('an image that is fetched ahead of need has its template before its first desktop', async () => {
  const size = { DORMOUSE_TIER_DEFAULT: '1,256,10' }
  await using instance = await Instance.start({ ...withTemplates, ...size }, ['--no-tour'])
  await using served = await serveImage('ahead', '1', await realHosts(instance))
  const admin = adminOf(instance)
  await admin.addImage({ name: 'ahead', version: '1', from: served.server.url, prefetch: true })
  const hosts = async () => (await admin.listImages()).images.find(({ name }) => name === 'ahead')?.hosts
  await waitFor(async () => (await hosts())?.every(({ templates }) => templates === 1), 180_000)
  const desktop = await instance.create({ tier: 'default', imageVersion: 'ahead@1' })
  const { result } = await desktop.wake()
  expect(result).toMatchObject({ resumedFrom: 'image', path: 'template' })
  expect(await guest(desktop, 'hostname')).toMatch(/^mini-/)
  await desktop.destroy()
})
