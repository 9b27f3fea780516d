// Guarantee: a key is kept only if the service accepts it, where only its user reads it, and no output shows it.
import { spawn } from 'node:child_process'
import { chmodSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { problem } from '@dormouse/client/testing/scripted-server'
import { expect, test } from 'vitest'
import { exitCodes } from '../failures.ts'
import { door, folder, pinnedNode, run, start } from '../testing/process.ts'

const keyOf = ({ headers }: { headers: { authorization?: string } }) => headers.authorization?.replace('Bearer ', '')

/** A service that accepts keys that end in `good`, and a user with an empty home. */
async function user() {
  const { dormouse, baseUrl, seen } = await start((request) =>
    keyOf(request)?.endsWith('good')
      ? { body: { desktops: [], orgs: [], default_max_desktops: 1 } }
      : problem(401, 'unauthenticated', 'the credential is not valid'),
  )
  const HOME = folder()
  const nowhere = { DORMOUSE_URL: undefined, DORMOUSE_API_KEY: undefined, DORMOUSE_OPERATOR_KEY: undefined, HOME }
  const said: string[] = []
  const call = async (args: string[], stdin?: string, env: Record<string, string | undefined> = {}) => {
    const ended = await dormouse(args, { env: { ...nowhere, ...env }, ...(stdin !== undefined && { stdin }) })
    said.push(ended.stdout, ended.stderr)
    return ended
  }
  const profiles = join(HOME, '.config/dormouse/profiles')
  const keep = (name: string, api_key: string) => {
    mkdirSync(profiles, { recursive: true })
    writeFileSync(join(profiles, `${name}.json`), JSON.stringify({ base_url: baseUrl, api_key }))
  }
  return { call, baseUrl, seen, said, profiles, keep, HOME }
}

test('login keeps a key that the service accepts, and later commands use it', async () => {
  const { call, baseUrl, seen, said, profiles } = await user()
  expect(await call(['login', `${baseUrl}/`], 'svc_sk_good\n')).toMatchObject({ code: 0, stdout: '' })
  expect(await call(['login', baseUrl], 'svc_op_good\n')).toMatchObject({ code: 0 })
  await call(['list'])
  await call(['admin', 'org', 'list'])
  expect(seen.slice(2).map(keyOf)).toEqual(['svc_sk_good', 'svc_op_good'])
  expect((await call(['profiles'])).stdout).toMatch(new RegExp(`default +${baseUrl} +api key, operator key`))
  expect([statSync(profiles).mode & 0o777, statSync(join(profiles, '..')).mode & 0o777]).toEqual([0o700, 0o700])
  expect(readdirSync(profiles)).toEqual(['default.json'])
  expect(statSync(join(profiles, 'default.json')).mode & 0o777).toBe(0o600)
  expect((await call(['logout'])).stdout).toContain('default is removed')
  expect(await call(['list'])).toMatchObject({ code: exitCodes.unavailable })
  expect(await call(['logout'])).toMatchObject({ code: exitCodes.notFound })
  expect(said.join()).not.toContain('good')
})

test('a key that the service refuses, or that is none, is not kept; nor is an address that is none', async () => {
  const { call, baseUrl, seen, profiles } = await user()
  const refused = await call(['login', baseUrl], 'svc_sk_bad')
  expect(refused).toMatchObject({ code: exitCodes.denied, stderr: expect.stringContaining('it was not kept') })
  expect(await call(['login', baseUrl], '\n')).toMatchObject({ code: exitCodes.usage })
  expect(await call(['login', baseUrl], 'svc_sk_ü')).toMatchObject({ code: exitCodes.usage })
  expect(await call(['login', 'desktops.example.com'], 'svc_sk_good')).toMatchObject({
    code: exitCodes.usage,
    stderr: expect.stringContaining('https://desktops.example.com'),
  })
  expect(await call(['login', baseUrl, '--profile', '../x'], 'svc_sk_good')).toMatchObject({ code: exitCodes.usage })
  const closed = await call(['login', 'http://127.0.0.1:1'], 'svc_sk_good')
  expect(closed.stderr).toContain('Next step: set the URL')
  expect(seen).toHaveLength(1)
  expect(() => readdirSync(profiles)).toThrow('ENOENT')
})

test('--profile comes before the environment, the environment before DORMOUSE_PROFILE and the usual profile', async () => {
  const { call, baseUrl, seen, keep } = await user()
  keep('default', 'svc_sk_usual.good')
  keep('work', 'svc_sk_work.good')
  const env = { DORMOUSE_API_KEY: 'svc_sk_env.good', DORMOUSE_PROFILE: 'work' }
  await call(['list'])
  await call(['list'], undefined, { DORMOUSE_PROFILE: 'work' })
  await call(['list'], undefined, env)
  await call(['list', '--profile', 'default'], undefined, { ...env, DORMOUSE_URL: 'http://127.0.0.1:1' })
  // An address of the environment gets only a key that is kept for it.
  await call(['list'], undefined, { DORMOUSE_URL: baseUrl })
  expect(seen.map(keyOf)).toEqual(['usual', 'work', 'env', 'usual', 'usual'].map((name) => `svc_sk_${name}.good`))
  const other = await call(['list'], undefined, { DORMOUSE_URL: 'http://127.0.0.1:1' })
  expect(other).toMatchObject({ code: exitCodes.denied, stderr: expect.stringContaining('dormouse login <url>') })
  const unknown = await call(['list', '--profile', 'wrok'])
  expect(unknown).toMatchObject({ code: exitCodes.usage, stderr: expect.stringContaining('did you mean "work"?') })
  expect((await call(['admin', 'org', 'list', '--profile', 'work'])).stderr).toMatch(
    /the profile "work" has no operator key\nNext step: `dormouse login <url> --profile work` keeps one/,
  )
})

test('the profile comes before a local service nearby, but not before the one that DORMOUSE_DATA names', async () => {
  const { keep, baseUrl, seen, HOME } = await user()
  keep('default', 'svc_sk_usual.good')
  const data = join(HOME, '.dormouse')
  mkdirSync(data)
  writeFileSync(join(data, 'local.json'), JSON.stringify({ base_url: baseUrl, api_key: 'svc_sk_local.good' }))
  const env = { HOME, PATH: process.env.PATH }
  await run(pinnedNode, [door, 'list'], { env, cwd: HOME })
  await run(pinnedNode, [door, 'list'], { env: { ...env, DORMOUSE_DATA: data }, cwd: HOME })
  expect(seen.map(keyOf)).toEqual(['svc_sk_usual.good', 'svc_sk_local.good'])
})

test('a profile that others can read is made private by the next login, and one that is damaged names its file', async () => {
  const { call, keep, baseUrl, profiles } = await user()
  keep('default', 'svc_sk_good')
  const file = join(profiles, 'default.json')
  chmodSync(file, 0o644)
  await call(['login', baseUrl], 'svc_sk_good')
  expect(statSync(file).mode & 0o777).toBe(0o600)
  writeFileSync(file, readFileSync(file, 'utf8').slice(0, 10))
  const damaged = await call(['list'])
  expect(damaged.stderr).toContain(`${file} is damaged\nNext step: remove it, then \`dormouse login <url>\``)
})

test('a terminal is asked for the key, and does not show it', async () => {
  const { baseUrl, profiles, HOME } = await user()
  const line = `"${pinnedNode}" "${door}" login ${baseUrl}`
  const env = { HOME, TERM: 'xterm', PATH: process.env.PATH }
  const child = spawn('script', ['-qec', line, '/dev/null'], { env, cwd: HOME })
  let shown = ''
  child.stdout.on('data', (chunk) => {
    const wasAsked = shown.includes('Key: ')
    shown += chunk
    if (!wasAsked && shown.includes('Key: ')) child.stdin.write('svc_sk_good\r')
  })
  expect(await new Promise((resolve) => child.once('close', resolve))).toBe(0)
  expect(shown).toContain('accepts the key')
  expect(shown).not.toContain('good')
  expect(readFileSync(join(profiles, 'default.json'), 'utf8')).toContain('svc_sk_good')
})
