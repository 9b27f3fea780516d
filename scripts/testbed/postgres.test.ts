// Guarantee: these settings hold on every machine.
import { expect, test } from 'vitest'
import { serverSettings } from './postgres.ts'

test('listens on loopback only, and is durable unless asked otherwise', () => {
  const durable = serverSettings(5432, true).join(' ')
  expect(durable).toContain('listen_addresses=127.0.0.1')
  expect(durable).not.toContain('fsync')
  expect(serverSettings(5432, false)).toContain('fsync=off')
})
