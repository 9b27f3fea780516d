// Guarantee: however the program is called, it ends as it should, and a start that fails prints the reason last.
import { mkdirSync, mkdtempDisposableSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createLog, readConfig, whyNotStarted } from '@dormouse/process'
import { expect, test } from 'vitest'
import { configSchema } from './config.ts'
import { startAgent } from './context.ts'
import { ended } from './testing/ended.ts'

test('a version, an argument and an identity that are wrong, and the end of a wait', async () => {
  using folder = mkdtempDisposableSync(join(tmpdir(), 'dormouse-agent-'))
  const at = (name: string) => {
    mkdirSync(join(folder.path, name))
    // Nobody listens on this port.
    return { DORMOUSE_AGENT_CONTROL_PLANES: 'http://127.0.0.1:9', DORMOUSE_AGENT_STATE_DIR: join(folder.path, name) }
  }
  const broken = at('broken')
  writeFileSync(join(broken.DORMOUSE_AGENT_STATE_DIR, 'identity.json'), '{"key":"secret"')
  const waiting = { ...at('waiting'), DORMOUSE_AGENT_ENROL_TOKEN: 'x', DORMOUSE_AGENT_STATEDIR: '/x' }
  const [version, argument, identity, wait] = await Promise.all([
    ended(['--version'], {}),
    ended(['--nope'], {}),
    ended([], broken),
    ended([], waiting, { until: 'it is retried' }),
  ])
  expect([version.code, version.last]).toEqual([0, expect.stringMatching(/^\d+\.\d+\.\d+$/)])
  expect([argument.code, argument.last]).toEqual([2, "unknown option '--nope'; see --help"])
  expect(identity.code).toBe(1)
  expect(identity.last).toMatch(/identity\.json is not the identity of a host; restore it, or enrol.*"could not start"/)
  expect(identity.last).not.toMatch(/"stack"|secret/)
  const [first, second] = wait.lines
  expect(JSON.parse(first!)).toMatchObject({ msg: 'starting', version: version.last, commit: 'sources' })
  expect(second).toContain('DORMOUSE_AGENT_STATEDIR is not a setting of this program')
  expect(second).toContain('DORMOUSE_AGENT_STATE_DIR')
  expect([wait.code, wait.last]).toEqual([0, expect.stringContaining('"closed"')])
})

test('a folder that cannot be used ends the start, with which, why, and the setting', async () => {
  using folder = mkdtempDisposableSync(join(tmpdir(), 'dormouse-agent-'))
  const file = join(folder.path, 'file')
  writeFileSync(file, '')
  const state = { DORMOUSE_AGENT_STATE_DIR: join(folder.path, 'state') }
  const cases: [Record<string, string>, string][] = [
    [{ DORMOUSE_AGENT_STATE_DIR: '/proc/x' }, 'cannot use /proc/x: its file system does not support folders; choose'],
    [{ DORMOUSE_AGENT_STATE_DIR: '/proc/x/y' }, 'cannot use /proc/x: its file system does not support folders; choose'],
    [{ DORMOUSE_AGENT_STATE_DIR: '/proc' }, 'cannot use /proc/'],
    [{ DORMOUSE_AGENT_STATE_DIR: '/dev/null/x' }, 'cannot use /dev/null/x: a part of the path is not a folder'],
    [{ DORMOUSE_AGENT_STATE_DIR: file }, `cannot use ${file}: a file is in the place of a folder`],
    [{ DORMOUSE_AGENT_STATE_DIR: `${file}/x` }, `cannot use ${file}/x: a part of the path is not a folder`],
    [{ DORMOUSE_AGENT_STATE_DIR: 'state' }, 'must be an absolute path'],
    [
      { ...state, DORMOUSE_AGENT_MEMORY_DIR: '/proc/x' },
      'cannot use /proc/x: its file system does not support folders; choose',
    ],
    [{ ...state, DORMOUSE_AGENT_DISKS_DIR: file }, `cannot use ${file}: a file is in the place of a folder`],
    [{ ...state, DORMOUSE_AGENT_DISKS_DIR: './disks' }, 'must be an absolute path'],
  ]
  const why = async (env: Record<string, string>) => {
    try {
      const config = readConfig(configSchema, { DORMOUSE_AGENT_CONTROL_PLANES: 'http://127.0.0.1:9', ...env })
      return await startAgent({ config, log: createLog({ name: 'test', level: 'silent' }) })
    } catch (error) {
      return whyNotStarted(error, env) ?? (error as Error).message
    }
  }
  for (const [env, expected] of cases) {
    const said = await why(env)
    expect(said).toContain(expected)
    expect(said).toContain(Object.keys(env).at(-1))
  }
})
