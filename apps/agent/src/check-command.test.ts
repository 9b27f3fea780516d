// Guarantee: `dormouse-agent check` names what prevents a working host, with what to do, and fails for nothing else.
import { chmodSync, mkdirSync, mkdtempDisposableSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readConfig, runChecks } from '@dormouse/process'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type CheckOptions, checksOf } from './check-command.ts'
import { configSchema } from './config.ts'
import { enrolHost } from './enrol-command.ts'
import { ControlPlane } from './testing/control-plane.ts'
import { ended } from './testing/ended.ts'

let plane: ControlPlane
beforeAll(async () => {
  plane = await ControlPlane.start()
})
afterAll(() => plane[Symbol.asyncDispose]())

const stage = () => mkdtempDisposableSync(join(tmpdir(), 'dormouse-check-'))

interface Row {
  name: string
  result: string
  detail: string
  remedy?: string
}

async function look(folder: string, env: Record<string, string> = {}, given: Partial<CheckOptions> = {}) {
  const config = readConfig(configSchema, {
    DORMOUSE_AGENT_STATE_DIR: join(folder, 'state'),
    DORMOUSE_AGENT_IMAGES_DIR: join(folder, 'images'),
    DORMOUSE_AGENT_DRIVER: 'simulated',
    ...env,
  })
  const lines: string[] = []
  const checks = await checksOf({ config, controlPlanes: undefined, allowHttp: false, ...given })
  await runChecks(checks, true, (line) => lines.push(line))
  const { checks: rows } = JSON.parse(lines[0]!) as { checks: Row[] }
  return (name: string) => rows.find((row) => row.name === name)
}

test('a machine before and after its enrolment', async () => {
  using folder = stage()
  const before = await look(folder.path, {}, { controlPlanes: [plane.url] })
  expect(before('identity')).toMatchObject({
    result: 'warning',
    remedy: expect.stringContaining('dormouse-agent enrol'),
  })
  expect(before('control plane')).toEqual({
    name: 'control plane',
    result: 'ok',
    detail: `${plane.url}: TCP and WebSocket work`,
  })
  expect(before('clock')?.result).toBe('ok')
  const config = readConfig(configSchema, { DORMOUSE_AGENT_STATE_DIR: join(folder.path, 'state') })
  const given = { config, controlPlanes: [plane.url], name: 'host', allowHttp: false, say: () => undefined }
  await enrolHost({ ...given, readInvitation: async () => 'good' })
  const after = await look(folder.path)
  expect(after('identity')).toMatchObject({ result: 'ok', detail: `host ${plane.hostId}` })
  expect(after('control plane')?.detail).toBe(`${plane.url}: TCP and WebSocket work, and it knows this host`)
  await using other = await ControlPlane.start()
  const elsewhere = await look(folder.path, {}, { controlPlanes: [other.url] })
  expect(elsewhere('control plane')).toMatchObject({
    result: 'failed',
    detail: `${other.url} answers, but gives no link: it refuses this host: another host`,
  })
})

test('what cannot work is named with its remedy', async () => {
  using folder = stage()
  const env = {
    DORMOUSE_AGENT_DRIVER: 'libvirt',
    DORMOUSE_AGENT_LIBVIRT_SOCKET: join(folder.path, 'no-socket'),
    DORMOUSE_AGENT_STATE_DIR: '/dev/shm/dormouse-check/state',
    DORMOUSE_AGENT_DISKS_DIR: join(folder.path, 'closed/disks'),
    DORMOUSE_AGENT_KVM: 'off',
  }
  mkdirSync(join(folder.path, 'closed'))
  chmodSync(folder.path, 0o755)
  chmodSync(join(folder.path, 'closed'), 0o700)
  const found = await look(folder.path, env, { controlPlanes: ['http://127.0.0.1:1'] })
  expect(found('control plane')).toMatchObject({
    result: 'failed',
    remedy: expect.stringContaining('start the control plane'),
  })
  expect(found('libvirt')).toMatchObject({
    result: 'failed',
    remedy: expect.stringContaining('systemctl start libvirtd'),
  })
  // It would only repeat that.
  expect(found('QEMU')).toBeUndefined()
  expect(found('KVM')?.result).toBe('ok')
  expect(found('state folder')).toMatchObject({ result: 'warning', detail: expect.stringContaining('on tmpfs') })
  expect(found('disks folder')?.detail).toContain(`other users cannot enter ${join(folder.path, 'closed')}`)
  expect(found('images')).toMatchObject({ result: 'warning', detail: 'none' })
  expect(found('clock')).toBeUndefined()
  const exposed = await look(folder.path, {}, { controlPlanes: ['http://10.0.0.1'] })
  expect(exposed('control plane')?.detail).toContain('is plain HTTP to another machine')
})

test('the program prints rows, and its exit code is 1 if one failed', async () => {
  const env = { DORMOUSE_AGENT_STATE_DIR: 'relative', DORMOUSE_AGENT_STATEDIR: '/x' }
  const { code, lines } = await ended(['check'], env)
  expect([code, lines[0]]).toEqual([1, expect.stringMatching(/^FAILED +settings .*must be an absolute path/)])
})

test('without a network it says so for each control plane', async () => {
  const inside = ['unshare', ...(process.getuid?.() === 0 ? [] : ['--map-root-user']), '--net']
  const env = { DORMOUSE_AGENT_DRIVER: 'simulated', DORMOUSE_AGENT_STATE_DIR: '/no/such' }
  const { code, lines } = await ended(['check', 'https://dormouse.example,https://10.0.0.1', '--json'], env, { inside })
  const { checks } = JSON.parse(lines.at(-1)!) as { checks: Row[] }
  const found = checks.filter(({ name }) => name === 'control plane')
  expect([code, found]).toMatchObject([
    1,
    [
      { result: 'failed', detail: expect.stringContaining('no address'), remedy: expect.stringContaining('resolver') },
      { result: 'failed', detail: expect.stringContaining('no answer'), remedy: expect.stringContaining('the route') },
    ],
  ])
})

test('a clock that is two hours ahead, a disk with 100 MiB left, and one that is full', async (context) => {
  context.skip(process.getuid?.() !== 0, 'only root makes a small file system')
  using folder = stage()
  const at = folder.path
  const small = (size: string, then = 'true') => {
    const script = `mount -t tmpfs -o size=${size} tmpfs ${at} && ${then} && exec "$@"`
    return { inside: ['unshare', '--mount', 'sh', '-c', script, 'sh'] }
  }
  const ahead = 'const now = Date.now; Date.now = () => now() + 7_200_000'
  const env = {
    NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(ahead)}`,
    DORMOUSE_AGENT_DRIVER: 'simulated',
    DORMOUSE_AGENT_STATE_DIR: join(at, 'state'),
    DORMOUSE_AGENT_DISKS_DIR: join(at, 'disks'),
  }
  const [{ code, lines }, full] = await Promise.all([
    ended(['check', plane.url, '--json'], env, small('100m')),
    ended(['enrol', plane.url], env, {
      ...small('1m', `{ head -c 2000000 /dev/zero > ${at}/file 2>/dev/null || true; }`),
      stdin: 'good\n',
    }),
  ])
  const { checks } = JSON.parse(lines.at(-1)!) as { checks: Row[] }
  const named = Object.fromEntries(checks.map((row) => [row.name, row]))
  const space = {
    result: 'failed',
    detail: expect.stringContaining('0.1 GiB free'),
    remedy: expect.stringMatching(/^free/),
  }
  expect([code, named]).toMatchObject([
    1,
    {
      clock: {
        result: 'failed',
        detail: expect.stringMatching(/^\+7\d{3}\.\d s/),
        remedy: expect.stringMatching(/^set the/),
      },
      'state folder': space,
      'disks folder': space,
    },
  ])
  expect(full).toMatchObject({
    code: 1,
    last: `dormouse-agent: no space is left for the state folder ${join(at, 'state')}; free some`,
  })
})
