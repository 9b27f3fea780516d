// Guarantee: the installer puts whole files where the unit expects them, protects the invitation and keeps the settings.
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, expect, test } from 'vitest'

const root = fileURLToPath(new URL('../', import.meta.url))
let clone: string
let target: string

/** A clone with a fake bundle and a fake Node, so that nothing has to be built. */
beforeEach(() => {
  clone = mkdtempSync(join(tmpdir(), 'dormouse-install-'))
  target = join(clone, 'target')
  for (const folder of ['apps/agent/dist', 'node_modules/node/bin']) mkdirSync(join(clone, folder), { recursive: true })
  for (const folder of ['scripts', 'infra']) symlinkSync(join(root, folder), join(clone, folder))
  for (const file of ['main.js', 'main.js.map']) writeFileSync(join(clone, 'apps/agent/dist', file), 'bundle')
  writeFileSync(join(clone, 'node_modules/node/bin/node'), '', { mode: 0o755 })
})
afterEach(() => rmSync(clone, { recursive: true, force: true }))

const install = (args: string[], input = '') =>
  execFileSync(join(clone, 'scripts/install-agent'), [...args, '--root', target], { input, encoding: 'utf8' })

test('installs what the unit starts, and settings that only root can read', () => {
  install(['--control-plane', 'https://one.example,https://two.example', '--name', 'alpha'], 'an-invitation\n')
  const unit = readFileSync(join(target, 'etc/systemd/system/dormouse-agent.service'), 'utf8')
  const [, ...files] = /^ExecStart=(\S+) .*?(\S+)$/m.exec(unit)!
  for (const file of files) expect(existsSync(join(target, file!)), file).toBe(true)
  const settings = join(target, /^EnvironmentFile=(\S+)$/m.exec(unit)![1]!)
  expect(statSync(settings).mode & 0o777).toBe(0o600)
  expect(readFileSync(settings, 'utf8')).toContain('DORMOUSE_AGENT_ENROL_TOKEN=an-invitation\n')
})

test('keeps the settings when it runs again', () => {
  install(['--control-plane', 'https://one.example'], 'first\n')
  install([])
  expect(readFileSync(join(target, 'etc/dormouse/agent.env'), 'utf8')).toContain('=first\n')
})

test('a dry run changes nothing', () => {
  expect(install(['--dry-run', '--control-plane', 'https://one.example'])).toContain('would write')
  expect(existsSync(target)).toBe(false)
})

test.each([
  [[], 'the control plane is not set'],
  [['--control-plane', 'http://a b'], 'characters that are not allowed'],
  [['--control-plane', "x'\nEVIL=1"], 'characters that are not allowed'],
  [['--what'], 'unknown option --what'],
])('%j fails with the next step', (args, why) => {
  const script = join(clone, 'scripts/install-agent')
  const { status, stderr } = spawnSync(script, [...args, '--root', target], { encoding: 'utf8', input: '' })
  expect(status).toBe(1)
  expect(stderr).toContain(why)
  expect(stderr).toContain('Next step: ')
})
