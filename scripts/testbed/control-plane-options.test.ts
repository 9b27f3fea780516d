// Guarantee: the control plane starts everywhere with the options of its systemd unit, and Node takes them.
import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { controlPlaneOptions } from './control-plane-options.ts'

test('the options of the unit limit the young generation', () => {
  const options = controlPlaneOptions(fileURLToPath(new URL('../../', import.meta.url)))
  expect(options).toBe('--max-semi-space-size=8')
  const env = { ...process.env, NODE_OPTIONS: options }
  expect(execFileSync(process.execPath, ['--eval', 'console.log(1)'], { env, encoding: 'utf8' })).toBe('1\n')
})
