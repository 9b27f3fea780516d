// Guarantee: no two desktops have one address, and none is dialled but by the address that is kept for it and that its
// filter holds it to.
import { newId, type Refusal } from '@dormouse/contract'
import type { DhcpHost, DhcpLease } from '@dormouse/node-libvirt'
import { beforeEach, expect, test } from 'vitest'
import { GuestNetwork } from './guest-network.ts'
import { macOf, networkXml, nicXml, subnetOf } from './network-xml.ts'

const name = 'dormouse-net'
/** libvirt's lists, in memory. */
let hosts: DhcpHost[]
let leases: DhcpLease[]
let network: GuestNetwork
/** Why the firewall is not up. */
let open: string | undefined
beforeEach(() => {
  hosts = []
  leases = []
  open = undefined
  const firewall = { ensure: async () => (open ? Promise.reject(new Error(open)) : undefined) }
  const kept = {
    name,
    xml: async () => {
      return networkXml(name, 'dm', subnetOf('10.99.7'), new Map(hosts.map(({ mac, ip }) => [mac, ip])))
    },
    leases: async () => leases,
    addDhcpHost: async (host: DhcpHost) => void hosts.push(host),
    removeDhcpHost: async ({ mac }: DhcpHost) => {
      hosts = hosts.filter((host) => host.mac !== mac)
    },
  }
  network = new GuestNetwork(kept, firewall, { set: async () => undefined, ensure: async () => undefined })
})

test('nobody comes onto it while its firewall does not stand, and a customer does not read why', async () => {
  const saved = `<interface type='network'><source network='${name}'/></interface>`
  open = 'nft is not installed on host seven'
  for (const coming of [network.nicFor(newId()), network.attach(newId(), saved)]) {
    const refusal = await coming.catch((error: Refusal) => error)
    expect(refusal).toMatchObject({ code: 'hypervisor_failed', cause: { message: open } })
    expect((refusal as Refusal).detail).not.toContain('nft')
  }
  expect(hosts).toEqual([])
  open = undefined
  await network.nicFor(newId())
})

test('desktops that come at once have an address each, and keep it until they are gone', async () => {
  const ids = Array.from({ length: 253 }, newId)
  const places = await Promise.all(ids.map((id) => network.nicFor(id)))
  expect(new Set(places.map(({ ip }) => ip)).size).toBe(253)
  expect(await network.nicFor(ids[7]!)).toEqual(places[7])
  await expect(network.nicFor(newId())).rejects.toMatchObject({ code: 'hypervisor_failed' })
  await network.releaseAddress(ids[7]!)
  expect((await network.nicFor(newId())).ip).toBe(places[7]!.ip)
})

test('a desktop that had an address before has it again, unless another has it by now or it is of another network', async () => {
  expect(await network.nicFor(newId(), '10.99.7.40')).toMatchObject({ ip: '10.99.7.40' })
  expect((await network.nicFor(newId(), '10.99.7.40')).ip).not.toBe('10.99.7.40')
  expect((await network.nicFor(newId(), '10.99.8.41')).ip).toMatch(/^10\.99\.7\./)
})

test('an address that another still has on lease is given only where no other is left', async () => {
  const [gone, id] = [newId(), newId()]
  leases = [{ mac: macOf(gone), ip: (await network.nicFor(gone)).ip }]
  await network.releaseAddress(gone)
  for (let n = 0; n < 252; n++) expect((await network.nicFor(newId(), leases[0]!.ip)).ip).not.toBe(leases[0]!.ip)
  expect((await network.nicFor(id)).ip).toBe(leases[0]!.ip)
})

test('its own lease keeps a desktop from no address', async () => {
  const id = newId()
  leases = [{ mac: macOf(id), ip: '10.99.7.40' }]
  expect((await network.nicFor(id, '10.99.7.40')).ip).toBe('10.99.7.40')
})

test('a saved desktop that was held to nothing is held to its own address when it wakes', async () => {
  const [id, saved] = [newId(), `<interface type='network'><source network='${name}'/></interface>`]
  const held = await network.attach(id, saved)
  expect(held).toContain(`<parameter name='IP' value='${hosts[0]?.ip}'/>`)
  expect(await network.attach(id, '<domain/>')).toBe('<domain/>')
  expect(hosts).toHaveLength(1)
})

test('a guest that comes with another address has to request its own, once', async () => {
  const [id, other] = [newId(), newId()]
  const savedWith = (ip: string) => nicXml({ network: name, mac: macOf(id), ip })
  await network.attach(id, savedWith('10.99.8.40'))
  const address = network.takeNewAddress(id)
  expect(address).toMatchObject({ mac: macOf(id), ip: expect.stringMatching(/^10\.99\.7\./) })
  expect(network.takeNewAddress(id)).toBeUndefined()
  await network.attach(id, savedWith(address!.ip))
  expect(network.takeNewAddress(id)).toBeUndefined()
  const free = address!.ip === '10.99.7.99' ? '10.99.7.98' : '10.99.7.99'
  await network.attach(other, nicXml({ network: name, mac: macOf(other), ip: free }))
  expect(network.takeNewAddress(other)).toBeUndefined()
})
