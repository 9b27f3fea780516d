// Guarantee: an agent upgrades by one request for each upgrade; root installs dormouse-agent and nothing else, whatever the
// request is; the agent reads the result.
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { RootUnit } from '@dormouse/agent/upgrades/root-unit.ts'
import { newId } from '@dormouse/contract'
import { beforeEach, expect, test } from 'vitest'

const script = join(import.meta.dirname, 'dormouse-agent-upgrade')

let folder: string
let unit: RootUnit
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'dormouse-upgrade-'))
  unit = new RootUnit(folder)
  mkdirSync(join(folder, 'bin'))
  program(
    'apt-get',
    'echo "$*" >> "$CALLS"; case $* in *9.9.9*) echo "E: Version 9.9.9 was not found"; exit 100 ;; esac',
  )
  program('dpkg-query', 'echo "$*" >> "$CALLS"; printf 0.2.0-1')
  return () => rmSync(folder, { recursive: true })
})

const program = (name: string, text: string) => {
  writeFileSync(join(folder, 'bin', name), `#!/bin/sh\n${text}\n`)
  chmodSync(join(folder, 'bin', name), 0o755)
}
const enable = () => mkdirSync(join(folder, 'requests'))
const requests = () => readdirSync(join(folder, 'requests'))

/** What systemd does while the folder is not empty; what was run. */
function root(): string[] {
  const calls = join(folder, 'calls')
  rmSync(calls, { force: true })
  const env = { PATH: `${join(folder, 'bin')}:${process.env.PATH}`, CALLS: calls }
  execFileSync(script, [folder], { env })
  return existsSync(calls) ? readFileSync(calls, 'utf8').trim().split('\n') : []
}

test('without the unit it fails; with it, one request is made, and root installs that version', async () => {
  const asked = { upgradeId: newId(), version: '0.2.0' }
  expect(unit.isThere).toBe(false)
  expect(await unit.upgrade(asked)).toMatchObject({ state: 'failed', detail: expect.stringContaining('not enabled') })
  enable()
  expect(unit.isThere).toBe(true)
  const running = { state: 'running', version: null, detail: null }
  expect([await unit.upgrade(asked), await unit.upgrade(asked)]).toEqual([running, running])
  expect(requests()).toEqual([`${asked.upgradeId}@0.2.0`])
  expect(root()).toEqual([
    '-q update',
    '-q -y --only-upgrade --allow-downgrades -o Dpkg::Options::=--force-confold install dormouse-agent=0.2.0',
    expect.stringContaining('dormouse-agent'),
  ])
  expect(requests()).toEqual([])
  expect(await unit.upgrade(asked)).toEqual({ state: 'installed', version: '0.2.0-1', detail: null })
  expect(root()).toEqual([])
})

test('without a version the newest is installed; a failure is told with apt’s words, and the next request is another one', async () => {
  enable()
  await unit.upgrade({ upgradeId: newId(), version: null })
  expect(root()[1]).toBe('-q -y --only-upgrade -o Dpkg::Options::=--force-confold install dormouse-agent')
  const asked = { upgradeId: newId(), version: '9.9.9' }
  expect((await unit.upgrade(asked)).state).toBe('running')
  root()
  expect(await unit.upgrade(asked)).toEqual({
    state: 'failed',
    version: null,
    detail: 'E: Version 9.9.9 was not found',
  })
})

test('what is no request is removed, and nothing of it is run, read or followed', () => {
  enable()
  const secret = join(folder, 'secret')
  writeFileSync(secret, 'of root')
  const id = newId()
  const names = [
    'x',
    `${id}`,
    `${id}@`,
    `${id}@0.2.0;reboot`,
    `${id}@-o=x`,
    `${id}@0.2.0\nid`,
    `${id}@nginx`,
    `${id}@1@2`,
    `${id}@0.2.0 nginx`,
  ]
  for (const name of names) writeFileSync(join(folder, 'requests', name), '')
  symlinkSync(secret, join(folder, 'requests', 'link'))
  mkdirSync(join(folder, 'requests', 'folder'))
  expect(root()).toEqual([])
  expect(requests()).toEqual([])
  expect([existsSync(join(folder, 'result')), readFileSync(secret, 'utf8')]).toEqual([false, 'of root'])
})
