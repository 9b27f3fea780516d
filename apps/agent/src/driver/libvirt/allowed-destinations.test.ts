import { expect, test } from 'vitest'
import { parseDestination } from './allowed-destinations.ts'

test('an opening is a network, an address, a port, or a port of the host', () => {
  const whole = { bits: 32, port: undefined, protocol: undefined }
  expect(parseDestination('10.20.0.0/16')).toEqual({ ...whole, address: '10.20.0.0', bits: 16 })
  expect(parseDestination('10.20.0.5')).toEqual({ ...whole, address: '10.20.0.5' })
  expect(parseDestination('10.20.0.5:5432')).toEqual({ ...whole, address: '10.20.0.5', port: 5432 })
  expect(parseDestination('10.20.0.5:53/udp')).toEqual({ ...whole, address: '10.20.0.5', port: 53, protocol: 'udp' })
  expect(parseDestination('host:3128')).toEqual({ ...whole, address: 'host', port: 3128 })
})

test('what is none is refused with a sentence, and so is whatever contains the metadata services', () => {
  for (const odd of [
    '',
    'x',
    '10.0.0',
    '10.0.0.256',
    '10.0.0.0/33',
    '10.0.0.1:0',
    '10.0.0.1:65536',
    '10.0.0.1:1/sctp',
  ]) {
    expect(() => parseDestination(odd)).toThrow('is not an address or port; write 10.20.0.0/16')
  }
  for (const odd of ['fd00::/8', '10.0.0.1; flush ruleset', '10.0.0.1 :1', 'host/8:1', '1e1.0.0.1']) {
    expect(() => parseDestination(odd)).toThrow('is not an address')
  }
  expect(() => parseDestination('host')).toThrow('needs a port')
  for (const wide of [
    '169.254.169.254',
    '169.254.0.0/16',
    '169.254.1.0/24',
    '169.0.0.0/8',
    '0.0.0.0/0',
    '128.0.0.0/1',
  ]) {
    expect(() => parseDestination(wide)).toThrow('where metadata services are')
  }
  expect(parseDestination('169.253.0.0/16').bits).toBe(16)
  expect(parseDestination('169.128.0.0/10').address).toBe('169.128.0.0')
})
