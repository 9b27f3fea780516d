import type { IncomingMessage } from 'node:http'
import { expect, test } from 'vitest'
import { Addresses, countedAs } from './addresses.ts'

const from = (remoteAddress: string, forwarded?: string): IncomingMessage =>
  ({ socket: { remoteAddress }, headers: forwarded === undefined ? {} : { 'x-forwarded-for': forwarded } }) as never

test.each([
  ['192.0.2.1', '192.0.2.1'],
  ['::ffff:192.0.2.1', '192.0.2.1'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
  ['2001:db8:1:2::', '2001:db8:1:2::/64'],
  ['fe80::1%eth0', 'fe80:0:0:0::/64'],
  ['::1', '0:0:0:0::/64'],
  [undefined, ''],
])('%s is counted as %s', (address, counted) => expect(countedAs(address)).toBe(counted))

test('without a trusted proxy nobody can name an address', () => {
  const addresses = new Addresses([])
  expect(addresses.of(from('192.0.2.1', '203.0.113.9'))).toBe('192.0.2.1')
  expect(addresses.isProxy(from('192.0.2.1').socket)).toBe(false)
})

test.each([
  ['a stranger who names another', '192.0.2.1', '203.0.113.9', '192.0.2.1'],
  ['a proxy that names its caller', '10.0.0.1', '203.0.113.9', '203.0.113.9'],
  ['what the caller said before the proxy did', '10.0.0.1', '198.51.100.7, 203.0.113.9', '203.0.113.9'],
  ['two proxies in a row', '10.0.0.1', '198.51.100.7, 203.0.113.9, 10.1.2.3', '203.0.113.9'],
  ['a proxy over IPv6', '::ffff:10.0.0.1', '203.0.113.9', '203.0.113.9'],
  ['an IPv6 caller', '2001:db8::5', '2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
  ['a caller with his port', '10.0.0.1', '203.0.113.9:4711', '203.0.113.9'],
  ['an IPv6 caller with his port', '10.0.0.1', '[2001:db8:1:2::9]:4711', '2001:db8:1:2::/64'],
  ['a proxy that asks for itself', '10.0.0.1', undefined, '10.0.0.1'],
  ['a proxy that names nobody', '10.0.0.1', 'unknown', '10.0.0.1'],
  ['a proxy that names what no address is', '10.0.0.1', 'x'.repeat(10_000), '10.0.0.1'],
  ['a proxy that names a number', '10.0.0.1', '1', '10.0.0.1'],
])('behind trusted proxies: %s', (_what, remote, forwarded, counted) => {
  const addresses = new Addresses(['10.0.0.0/8', '2001:db8::5'])
  expect(addresses.of(from(remote, forwarded))).toBe(counted)
})

test('what is no address is refused as a proxy, and so is everybody', () => {
  for (const wrong of ['example.org', '10.0.0.0/33', '0.0.0.0/0', '::/0', '10'])
    expect(() => new Addresses([wrong]), wrong).toThrow()
})
