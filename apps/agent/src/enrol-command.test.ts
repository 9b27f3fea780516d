// Guarantee: one command makes a machine a host, with the invitation in no argument. Repeated or interrupted, it makes no second
// host, and each failure says what to do.
import { mkdtempDisposableSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { newId } from '@dormouse/contract'
import { listenOnLoopback } from '@dormouse/link/testing'
import { createLog, readConfig, StartError } from '@dormouse/process'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { configSchema } from './config.ts'
import { startAgent } from './context.ts'
import { type EnrolOptions, enrolHost } from './enrol-command.ts'
import { until } from './testing/bench.ts'
import { ControlPlane } from './testing/control-plane.ts'
import { ended } from './testing/ended.ts'

let plane: ControlPlane
beforeAll(async () => {
  plane = await ControlPlane.start()
})
afterAll(() => plane[Symbol.asyncDispose]())

const stage = () => mkdtempDisposableSync(join(tmpdir(), 'dormouse-enrol-'))
const settingsIn = (folder: string, env: Record<string, string> = {}) =>
  readConfig(configSchema, { DORMOUSE_AGENT_STATE_DIR: folder, ...env })

function enrol(folder: string, url: string, given: Partial<EnrolOptions> & { token?: string } = {}) {
  const { token = 'good', ...options } = given
  return enrolHost({
    config: settingsIn(folder),
    controlPlanes: [url],
    name: 'rack4-1',
    allowHttp: false,
    readInvitation: async () => `${token}\n`,
    say: () => undefined,
    waitMs: 300,
    ...options,
  })
}

const whyNot = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => expect.unreachable('it should have failed'),
    (error: unknown) => {
      expect(error).toBeInstanceOf(StartError)
      return (error as Error).message
    },
  )

test('the program enrols with what is on standard input, and its agent needs no settings', async () => {
  using folder = stage()
  const env = { DORMOUSE_AGENT_STATE_DIR: folder.path }
  const words = ['enrol', plane.url, '--name', 'rack4-1', '--json']
  const [first, usage] = await Promise.all([
    ended(words, env, { stdin: 'good\n' }),
    ended(['enrol', 'dormouse.example'], {}),
  ])
  expect([usage.code, usage.last]).toEqual([
    2,
    expect.stringContaining("'dormouse.example' is not the URL of a control"),
  ])
  expect([first.code, JSON.parse(first.lines[0]!)]).toEqual([
    0,
    { host_id: plane.hostId, installation_id: plane.installationId, control_planes: [plane.url], is_new: true },
  ])
  const identity = join(folder.path, 'identity.json')
  expect(statSync(identity).mode & 0o777).toBe(0o600)
  expect(readdirSync(folder.path)).not.toContain('not-enrolled.json')
  // It asks for no invitation.
  const second = await ended(words, env, { stdin: '' })
  expect([second.code, JSON.parse(second.lines[0]!)]).toMatchObject([0, { host_id: plane.hostId, is_new: false }])
  const config = settingsIn(folder.path, { DORMOUSE_AGENT_DRIVER: 'simulated', DORMOUSE_AGENT_METRICS_LISTEN: 'off' })
  const agent = await startAgent({ config, log: createLog({ name: 'test', level: 'silent' }) })
  await until(() => plane.linked)
  await agent.close()
})

test('what is wrong is said, with what to do', async () => {
  using folder = stage()
  const at = folder.path
  expect(await whyNot(enrol(at, plane.url, { token: '' }))).toMatch(
    /there is no invitation.*dormouse admin host invite/,
  )
  expect(await whyNot(enrol(at, plane.url, { token: '{"token": 1}' }))).toContain('is no invitation')
  expect(await whyNot(enrol(at, plane.url, { token: 'spent' }))).toContain(
    'refused the enrolment: the invitation was used',
  )
  expect(await whyNot(enrol(at, 'http://10.0.0.1'))).toMatch(/is plain HTTP to another machine.*--allow-http/)
  const config = settingsIn(at, { DORMOUSE_AGENT_CONTROL_PLANES: 'https://other.example' })
  expect(await whyNot(enrol(at, plane.url, { config }))).toContain(
    'DORMOUSE_AGENT_CONTROL_PLANES is https://other.example',
  )
  const said: string[] = []
  const absent = whyNot(enrol(at, 'http://127.0.0.1:1', { say: (line) => said.push(line) }))
  expect(await absent).toBe(
    'http://127.0.0.1:1 was not reached: nothing listens there; start the control plane, or correct the port',
  )
  expect(said).toEqual(['waiting for http://127.0.0.1:1: nothing listens there'])
  // It does not wait for a certificate that somebody has to correct.
  const noTls = enrol(at, plane.url.replace('http:', 'https:'), { waitMs: 600_000 })
  expect(await whyNot(noTls)).toContain('it does not speak TLS')
  await enrol(at, plane.url)
})

test('an enrolled host stays what it is', async () => {
  using folder = stage()
  const { identity } = await enrol(folder.path, plane.url)
  await using other = await ControlPlane.start()
  expect(await whyNot(enrol(folder.path, other.url))).toMatch(
    new RegExp(`enrolled already, as host ${identity.hostId}, which ${other.url} refuses: another host; to make it`),
  )
  expect(await whyNot(enrol(folder.path, 'http://127.0.0.1:1'))).toContain('was not reached: nothing listens there')
  // Another replica of the same installation.
  await using replica = await ControlPlane.start(plane)
  expect(await enrol(folder.path, replica.url)).toMatchObject({ isNew: false })
  const kept = JSON.parse(readFileSync(join(folder.path, 'identity.json'), 'utf8'))
  expect(kept).toMatchObject({ hostId: identity.hostId, controlPlanes: [replica.url] })
})

test('an invitation whose answer was lost is tried again before another one is used', async () => {
  using folder = stage()
  const hostId = newId()
  const tokens: string[] = []
  const keys = new Set<string>()
  const server = createServer((request, response) => {
    let body = ''
    request.on('data', (chunk) => (body += chunk))
    request.on('end', () => {
      const { token, public_key: key } = JSON.parse(body)
      tokens.push(token)
      keys.add(key.x)
      if (tokens.length === 1) return void response.destroy()
      response.end(JSON.stringify({ host_id: hostId, installation_id: newId() }))
    })
  })
  const url = `http://127.0.0.1:${await listenOnLoopback(server)}`
  // Its first pause is longer than that.
  await whyNot(enrol(folder.path, url, { token: 'first', waitMs: 150 }))
  const { identity } = await enrol(folder.path, url, { token: 'second' })
  expect([identity.hostId, tokens, keys.size]).toEqual([hostId, ['first', 'first'], 1])
  server.close()
})

test('while an agent uses the folder, nothing is enrolled', async () => {
  using folder = stage()
  const { DatabaseSync } = await import('node:sqlite')
  writeFileSync(join(folder.path, 'lock'), '')
  const lock = new DatabaseSync(join(folder.path, 'lock'))
  lock.exec('begin exclusive')
  expect(await whyNot(enrol(folder.path, plane.url))).toContain('another agent uses the state folder')
  lock.close()
})
