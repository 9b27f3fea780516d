// Settings that must hold whatever the machine.
import { expect, test } from 'vitest'
import { serverSettings } from './postgres.ts'

test('listens on this machine alone, and gives up durability only when told to', () => {
  const durable = serverSettings(5432, true).join(' ')
  expect(durable).toContain('listen_addresses=127.0.0.1')
  expect(durable).not.toContain('fsync')
  expect(serverSettings(5432, false)).toContain('fsync=off')
})
