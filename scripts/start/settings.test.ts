// Guarantee: each program of a run gets its own settings and no other's, and an unknown variable is named.
import { expect, test } from 'vitest'
import { ownSettings, unknownSettings } from './settings.ts'

const env = {
  DORMOUSE_LEASE_SECS: '1',
  DORMOUSE_AGENT_WARM_SECS: '2',
  DORMOUSE_DATA: '/data',
  DORMOUSE_URL: 'http://x',
  DORMOUSE_PUBLIC_ULR: 'http://y',
  PORT: '80',
}

test('each program gets its own', () => {
  expect(ownSettings('controlPlane', env)).toEqual({ DORMOUSE_LEASE_SECS: '1' })
  expect(ownSettings('agent', env)).toEqual({ DORMOUSE_AGENT_WARM_SECS: '2' })
})

test('what none knows is named with the nearest', () => {
  expect(unknownSettings(env)).toEqual([
    'DORMOUSE_PUBLIC_ULR is not a setting of this program and is ignored; did you mean "DORMOUSE_PUBLIC_URL"?',
  ])
  expect(unknownSettings({ DORMOUSE_WARM_SECS: '2', DORMOUSE_DTA: '/d' }).join()).toMatch(
    /"DORMOUSE_AGENT_WARM_SECS".*"DORMOUSE_DATA"/,
  )
})
