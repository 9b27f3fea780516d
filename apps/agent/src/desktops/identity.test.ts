// Guarantee: a guest that was copied gets a name of its own in every place that has its name, and the image's own lines stay.
import { expect, test } from 'vitest'
import { parseSealed } from '../scripts/seal.ts'
import { identityOf } from './identity.ts'

const id = '01a20a2f-fa5b-7a3a-92b2-f7215b07c7a8'
const sealed = (hosts: string, name = 'desktop', machineId = true) => ({ hostName: name, hosts, machineId })
const file = (news: ReturnType<typeof identityOf>, path: string) =>
  news.files?.find((each) => each.path === path)?.bytes?.toString()

test('host name, hosts and machine id', () => {
  const news = identityOf(id, sealed('127.0.0.1 localhost desktop\n10.0.0.1 desktop-server\n'))
  expect(news.hostName).toBe('desktop-f7215b07c7a8')
  expect(file(news, '/etc/hostname')).toBe('desktop-f7215b07c7a8\n')
  expect(file(news, '/etc/hosts')).toBe('127.0.0.1 localhost desktop-f7215b07c7a8\n10.0.0.1 desktop-server\n')
  expect(file(news, '/etc/machine-id')).toMatch(/^[\da-f]{32}\n$/)
  expect(file(identityOf(id, sealed('')), '/etc/machine-id')).not.toBe(file(news, '/etc/machine-id'))
})

test('a hosts file without the name gets it, and an image without a machine id gets none', () => {
  const news = identityOf(id, sealed('127.0.0.1 localhost\n', 'desktop', false))
  expect(file(news, '/etc/hosts')).toBe('127.0.1.1 desktop-f7215b07c7a8\n127.0.0.1 localhost\n')
  expect(file(news, '/etc/machine-id')).toBeUndefined()
})

test('a long name stays within what a host name may have', () => {
  expect(identityOf(id, sealed('', 'x'.repeat(63))).hostName).toHaveLength(63)
})

test('what a guest prints when it is sealed is checked', () => {
  const hosts = Buffer.from('127.0.0.1 localhost\n').toString('base64')
  expect(parseSealed(`mini no ${hosts}\n`)).toEqual(sealed('127.0.0.1 localhost\n', 'mini', false))
  expect(parseSealed('mini.example yes \n')).toEqual(sealed('', 'mini'))
  for (const bad of ['', '; yes ', `${'x'.repeat(64)} yes `, `mini yes ${'QUFB'.repeat(20_000)}`])
    expect(() => parseSealed(bad), bad.slice(0, 20)).toThrow()
})
