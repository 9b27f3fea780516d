import { newId } from '@dormouse/contract'
import { expect, test } from 'vitest'
import {
  addressCount,
  gatewayOf,
  guestAddress,
  isUnfiltered,
  macOf,
  networkXml,
  nicXml,
  readHosts,
  readNic,
  readSubnet,
  subnetOf,
  withAddress,
  withLinkDown,
} from './network-xml.ts'

test('a network is read back as it was written, whatever its size', () => {
  for (const subnet of [subnetOf('10.99.7'), subnetOf('10.99'), { first: subnetOf('10.99.16').first, bits: 20 }]) {
    expect(readSubnet(networkXml('n', 'b', subnet))).toEqual(subnet)
  }
})

test('a lease ends, so that the address of a desktop that is gone can be another’s', () => {
  expect(networkXml('n', 'b', subnetOf('10.99.7'))).toMatch(/<lease expiry='[1-9]\d*' unit='hours'\/>/)
})

test('guests have every address but the network’s own, the host’s and the one for all', () => {
  const subnet = subnetOf('10.99.7')
  expect(gatewayOf(subnet)).toBe('10.99.7.1')
  expect([guestAddress(subnet, 0), guestAddress(subnet, addressCount(subnet) - 1)]).toEqual([
    '10.99.7.2',
    '10.99.7.254',
  ])
  expect(guestAddress(subnet, addressCount(subnet))).toBeUndefined()
  expect(guestAddress(subnetOf('10.99'), 255)).toBe('10.99.1.1')
})

test('a desktop’s place is alone on its port, held to one address, and read back also as libvirt writes it', () => {
  const nic = { network: 'dormouse-net', mac: macOf(newId()), ip: '10.99.7.9' }
  const xml = nicXml(nic)
  expect(nic.mac).toMatch(/^52(:[0-9a-f]{2}){5}$/)
  expect(xml).toContain(`<filterref filter='clean-traffic'><parameter name='IP' value='10.99.7.9'/></filterref>`)
  expect(xml).toContain(`<port isolated='yes'/>`)
  expect(readNic(xml)).toEqual(nic)
  const written = xml
    .replace(`'dormouse-net'/>`, `'dormouse-net' portid='x' bridge='dm'/>\n      <target dev='vnet0'/>`)
    .replace('<parameter', '\n        <parameter')
  expect(readNic(written)).toEqual(nic)
  expect(readNic(withAddress(written, '10.99.7.10'))).toEqual({ ...nic, ip: '10.99.7.10' })
})

test('a saved place is held to its address, and keeps its MAC and its slot, however it was held before', () => {
  const [before, slot] = [
    "<interface type='network'><mac address='52:54:00:00:00:01'/>",
    "<address type='pci' slot='0x02'/>",
  ]
  const filters = [
    '',
    "<filterref filter='other'/>",
    "<filterref filter='clean-traffic'>\n</filterref><port isolated='no'/>",
  ]
  for (const filter of filters) {
    const held = withAddress(
      `<domain>${before}<source network='n'/>${filter}${slot}</interface><rng/></domain>`,
      '10.99.7.9',
    )
    expect(readNic(held)).toEqual({ network: 'n', mac: '52:54:00:00:00:01', ip: '10.99.7.9' })
    expect(held).toMatch(/<port isolated='yes'\/><filterref.*<\/interface><rng\/><\/domain>$/)
    expect(held.match(/<filterref|<port/g)).toHaveLength(2)
    expect(held).toContain(slot)
  }
  const saved = `${before}<source network='n'/></interface>`
  expect(['<domain/>', saved, withAddress(saved, '10.99.7.9')].map(isUnfiltered)).toEqual([false, true, false])
  expect(withAddress('<domain/>', '10.99.7.9')).toBe('<domain/>')
})

test('a cable is pulled out of what is saved, and put in again where it is held', () => {
  const saved = `<domain>${nicXml({ network: 'n', mac: macOf(newId()), ip: '10.99.7.9' })}<rng/></domain>`
  const out = withLinkDown(withLinkDown(saved))
  expect(out.match(/<link state='down'\/>/g)).toHaveLength(1)
  expect(withAddress(out, '10.99.7.9')).toBe(saved)
  expect(withLinkDown('<domain/>')).toBe('<domain/>')
})

test('a network gives addresses to those alone that it keeps one for, and tells no guest’s name', () => {
  const xml = networkXml('n', 'b', subnetOf('10.99.7'), new Map([['52:00:00:00:00:01', '10.99.7.5']]))
  expect(xml).toContain(`<dnsmasq:option value='dhcp-ignore=tag:!known'/><dnsmasq:option value='dhcp-ignore-names'/>`)
  expect([...readHosts(xml)]).toEqual([['52:00:00:00:00:01', '10.99.7.5']])
})

test('a place without the filter, or with one that does not hold it to an address, is none', () => {
  const nic = nicXml({ network: 'n', mac: macOf(newId()), ip: '10.99.7.9' })
  expect(readNic('<domain/>')).toBeUndefined()
  expect(readNic(nic.replace(/<filterref[\s\S]*<\/filterref>/, ''))).toBeUndefined()
  expect(readNic(nic.replace('clean-traffic', 'allow-ipv4'))).toBeUndefined()
  expect(readNic(nic.replace("name='IP'", "name='OTHER'"))).toBeUndefined()
})

test('the addresses that a network keeps are read back', () => {
  const xml = `<dhcp><range start='10.0.0.2' end='10.0.0.9'/><host mac='52:00:00:00:00:01' ip='10.0.0.5'/>
    <host mac='52:00:00:00:00:02' name='x' ip='10.0.0.6'><lease expiry='0'/></host></dhcp>`
  expect([...readHosts(xml)]).toEqual([
    ['52:00:00:00:00:01', '10.0.0.5'],
    ['52:00:00:00:00:02', '10.0.0.6'],
  ])
})
