// Guarantee: a webhook reaches the public internet only, whatever form its address has.
import { expect, test } from 'vitest'
import { checkUrl, isPublic } from './addresses.ts'

test.each([
  ...[
    '0.0.0.0',
    '10.1.2.3',
    '100.64.0.1',
    '127.0.0.1',
    '127.255.255.254',
    '169.254.169.254',
    '172.16.0.1',
    '172.31.255.255',
  ],
  ...['192.0.0.1', '192.0.2.1', '192.168.0.1', '198.18.0.1', '198.51.100.1', '203.0.113.1', '224.0.0.1', '240.0.0.1'],
  ...['255.255.255.255', '::', '::1', '::127.0.0.1', '::ffff:10.0.0.1', '::ffff:7f00:1', '::ffff:0:127.0.0.1'],
  ...['64:ff9b::7f00:1', '64:ff9b:1::1', '100::1', '2001::1', '2001:db8::1', '2002:7f00:1::', 'fc00::1', 'fd12::1'],
  ...['fe80::1', 'fe80::1%eth0', 'fec0::1', 'ff02::1', '4000::1', '3fff::1', 'localhost', '', '1.2.3'],
])('%s is not public', (address) => {
  expect(isPublic(address)).toBe(false)
})

test.each(['1.1.1.1', '8.8.8.8', '172.32.0.1', '::ffff:8.8.8.8', '2606:4700::1111', '2a00:1450:4001::200e'])(
  '%s is public',
  (address) => {
    expect(isPublic(address)).toBe(true)
  },
)

test.each([
  ...['http://example.com/', 'ftp://example.com/', 'example.com', 'https://', 'https://user@example.com/'],
  ...['https://:secret@example.com/', 'https://example.com/#part', 'https://localhost/', 'https://a.localhost./'],
  ...['https://127.0.0.1/', 'https://0x7f.1/', 'https://2130706433/', 'https://[::1]/', 'https://[::ffff:10.0.0.1]/'],
  `https://example.com/${'a'.repeat(2_048)}`,
])('%s is refused', (url) => {
  expect(() => checkUrl(url, false)).toThrow(/url: must/)
})

test('private addresses and http need the operator’s permission, which allows no other scheme', () => {
  expect(checkUrl('http://127.0.0.1:8080/x', true)).toBe('http://127.0.0.1:8080/x')
  expect(() => checkUrl('file:///etc/passwd', true)).toThrow(/https/)
  expect(checkUrl('https://EXAMPLE.com', false)).toBe('https://example.com/')
})
