// Guarantee: a host says how many processors it has, and what the control plane of the release before makes of them.
import { mkdtempDisposableSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readConfig } from '@dormouse/process'
import { expect, test } from 'vitest'
import { configSchema } from './config.ts'
import { Facts } from './facts.ts'
import { simulatedFrom } from './make-driver.ts'

test.each([
  ['of its own', {}, 64, 256],
  ['as many as were set', { DORMOUSE_AGENT_PROCESSORS: '1.5' }, 1.5, 6],
  ['by the older setting, four for one', { DORMOUSE_AGENT_VCPUS: '6' }, 1.5, 6],
  ['by the newer setting where both are there', { DORMOUSE_AGENT_VCPUS: '6', DORMOUSE_AGENT_PROCESSORS: '2' }, 2, 8],
])('processors %s', async (_what, env, processors, vcpus) => {
  using at = mkdtempDisposableSync(join(tmpdir(), 'dormouse-driver-'))
  const needed = { DORMOUSE_AGENT_CONTROL_PLANES: 'http://127.0.0.1:1', DORMOUSE_AGENT_STATE_DIR: at.path }
  const driver = simulatedFrom(readConfig(configSchema, { ...needed, ...env }))
  expect(await new Facts(driver, () => null).current()).toMatchObject({ processors, capacity: { vcpus } })
})
