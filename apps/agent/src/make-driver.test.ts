// Guarantee: a host reports how many processors it has, or as many as it is set to offer.
import { mkdtempDisposableSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readConfig } from '@dormouse/process'
import { expect, test } from 'vitest'
import { configSchema } from './config.ts'
import { simulatedFrom } from './make-driver.ts'

test.each([
  ['of its own', {}, 64],
  ['as many as were set', { DORMOUSE_AGENT_PROCESSORS: '1.5' }, 1.5],
])('processors %s', async (_what, env, processors) => {
  using at = mkdtempDisposableSync(join(tmpdir(), 'dormouse-driver-'))
  const needed = { DORMOUSE_AGENT_CONTROL_PLANES: 'http://127.0.0.1:1', DORMOUSE_AGENT_STATE_DIR: at.path }
  const driver = simulatedFrom(readConfig(configSchema, { ...needed, ...env }))
  expect(await driver.facts()).toMatchObject({ processors })
})
