// Guarantee: settings that contradict each other are refused before anything starts.
import { readConfig } from '@dormouse/process'
import { expect, test } from 'vitest'
import { configSchema } from './config.ts'

const read = (env: Record<string, string>) => readConfig(configSchema, { DATABASE_URL: 'postgres://x', ...env })

test.each(['0.0.0.0', '::'])('listening on %s needs the URL that agents connect to', (host) => {
  expect(() => read({ DORMOUSE_HOST: host })).toThrow(/DORMOUSE_PUBLIC_URL/)
  const url = 'https://desks.example'
  expect(read({ DORMOUSE_HOST: host, DORMOUSE_PUBLIC_URL: url }).publicUrl).toBe(url)
})

test('a single address needs no other URL', () => {
  for (const host of ['127.0.0.1', '::1', '10.0.0.7', 'desks.example'])
    expect(read({ DORMOUSE_HOST: host }).publicUrl).toBeUndefined()
})

test('a wait never lasts longer than the contract allows', () => {
  expect(read({}).waitCapMs).toBe(120_000)
  expect(read({ DORMOUSE_WAIT_CAP_SECS: '25' }).waitCapMs).toBe(25_000)
  expect(() => read({ DORMOUSE_WAIT_CAP_SECS: '121' })).toThrow(/DORMOUSE_WAIT_CAP_SECS/)
})
