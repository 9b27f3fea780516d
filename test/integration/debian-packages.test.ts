// Guarantee: the Debian packages of a release contain what they should, and nothing of the machine that made them. Their control plane
// serves as any user, as a container, too, and npm installs what it serves.
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chmodSync, globSync, lstatSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { release } from '@dormouse/process'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { ensureSdk } from '../../scripts/build/sdk.ts'
import { packDebian } from '../../scripts/release/debian.ts'
import { packImage } from '../../scripts/release/image.ts'
import { isRoot } from '../../scripts/testbed/namespaces.ts'
import { freePort } from '../free-port.ts'
import { plainFetch } from '../openapi.ts'
import { waitFor } from '../wait-for.ts'
import { Database } from './parts/database.ts'
import { requireTools } from './parts/tools.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))

/** On the disk: they are large. */
const folder = mkdtempSync('/var/tmp/dormouse-packages-')
const tree = join(folder, 'tree')
const made = join(folder, 'made')
const given = { version: release.version, epoch: 1_790_000_000, say: () => undefined }
let files: string[]
let sums: string[]

beforeAll(async () => {
  await ensureSdk(() => undefined)
  mkdirSync(made)
  const packing = { ...given, npm: join(root, 'apps/control-plane/dist/sdk'), uncompressed: true }
  files = await packDebian(made, packing)
  for (const name of files) execFileSync('dpkg-deb', ['-x', join(made, name), tree])
  const sumOfAgent = () =>
    createHash('sha256')
      .update(readFileSync(join(made, files[1]!)))
      .digest('hex')
  const first = sumOfAgent()
  await packDebian(made, { ...packing, names: ['dormouse-agent'] })
  sums = [first, sumOfAgent()]
}, 300_000)
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** For root: what follows runs as another user. */
const asUser = (id: number) => ['setpriv', `--reuid=${id}`, `--regid=${id}`, '--clear-groups', '--inh-caps=-all']

const setting = (each: string) => {
  const at = each.indexOf('=')
  return ['--setenv', each.slice(0, at), each.slice(at + 1)]
}

const contentOf = (path: string) =>
  globSync('**/*', { cwd: join(tree, path) })
    .filter((name) => lstatSync(join(tree, path, name)).isFile())
    .sort()

test('each has its program with a Node of its own, its unit, its settings and its documentation', () => {
  const names = ['dormouse-control-plane', 'dormouse-agent', 'dormouse']
  expect(files).toEqual(names.map((name) => `${name}_${release.version}_amd64.deb`))
  expect(contentOf('usr/bin')).toEqual(names.toSorted())
  expect(contentOf('usr/lib/dormouse')).toEqual(['dormouse.js', 'node', 'package.json'])
  expect(contentOf('usr/lib/dormouse-agent')).toEqual(['dormouse-agent-upgrade', 'main.js', 'main.js.map', 'node'])
  const served = contentOf('usr/lib/dormouse-control-plane')
  expect(new Set(served.map((path) => path.split('/')[0]))).toEqual(
    new Set([
      'docs',
      'dormouse-backup',
      'dormouse-restore',
      'main.js',
      'main.js.map',
      'migrations',
      'node',
      'sdk',
      'viewer',
    ]),
  )
  expect(served.filter((path) => path.startsWith('sdk/'))).toEqual([
    'sdk/client.tgz',
    'sdk/dormouse.tgz',
    'sdk/mcp.tgz',
  ])
  expect(contentOf('usr/lib/systemd/system')).toEqual([
    'dormouse-agent-upgrade.path',
    'dormouse-agent-upgrade.service',
    'dormouse-agent.service',
    'dormouse-backup.service',
    'dormouse-backup.timer',
    'dormouse-control-plane.service',
    'libvirtd.service.d/dormouse.conf',
  ])
  expect(contentOf('etc')).toEqual(['dormouse/agent.env', 'dormouse/control-plane.env'])
  expect(contentOf('usr/share/man')).toEqual([
    'man1/dormouse.1.gz',
    'man8/dormouse-agent.8.gz',
    'man8/dormouse-control-plane.8.gz',
  ])
  for (const name of names)
    expect(contentOf(`usr/share/doc/${name}`)).toEqual(
      expect.arrayContaining(['changelog.gz', 'copyright', 'parts.cdx.json']),
    )
})

test('two builds are the same bytes', () => {
  expect(sums[1]).toBe(sums[0])
})

test('nothing tells where they were made, nothing is a test, and nothing is secret', () => {
  const own = contentOf('').filter((path) => !path.endsWith('/node'))
  expect(own.length).toBeGreaterThan(40)
  const secret = /-----BEGIN [A-Z ]*PRIVATE KEY-----\s+[\w+/=]{20}|svc_(op_)?\w{30}/
  const telling = own.filter((path) => {
    const text = readFileSync(join(tree, path), 'latin1')
    return text.includes(root) || text.includes(folder) || secret.test(text)
  })
  expect(telling).toEqual([])
  const settings = ['etc/dormouse/agent.env', 'etc/dormouse/control-plane.env']
  expect(own.filter((path) => /\.env/.test(path))).toEqual(settings)
  expect(own.filter((path) => /\.test\.|(^|\/)test\/|\.built-from|\.ts$/.test(path))).toEqual([])
})

/** The health check of compose.yaml, for another port. */
function healthCheck(port: number): string[] {
  const compose = readFileSync(join(root, 'infra/containers/compose.yaml'), 'utf8')
  const [, words = ''] = /^ +- CMD\n((?: +- .*\n)+)/m.exec(compose) ?? []
  return [...words.matchAll(/- (.*)/g)].map(([, word]) => word!.replace(':8080', `:${port}`))
}

test('the container image serves, read-only and as its own user', async (context) => {
  requireTools(context, 'mmdebstrap', 'umoci', 'bwrap')
  const bundle = join(folder, 'bundle')
  const layout = join(folder, 'layout')
  mkdirSync(layout)
  execFileSync('tar', ['-xf', join(made, packImage(made, given)), '-C', layout])
  execFileSync('umoci', ['unpack', '--rootless', '--image', `${layout}:${release.version}`, bundle], { stdio: 'pipe' })
  const { args, env, user } = JSON.parse(readFileSync(join(bundle, 'config.json'), 'utf8')).process
  chmodSync(folder, 0o755)
  chmodSync(bundle, 0o755)
  const database = await Database.empty(inject('databaseUrl'))
  const port = await freePort()
  const settings = [...env, `DATABASE_URL=${database.url}`, `PORT=${port}`, 'DORMOUSE_PUBLIC_URL=https://cp.example']
  const own = ['--unshare-user', '--uid', user.uid, '--gid', user.gid, '--unshare-pid', '--as-pid-1', '--unshare-ipc']
  const places = ['--ro-bind', join(bundle, 'rootfs'), '/', '--proc', '/proc', '--dev', '/dev', '--chdir', '/']
  // Root would own what the image's user does not.
  const other = isRoot() ? asUser(user.uid) : []
  const inside = (...more: string[]) =>
    [...other, 'bwrap', ...own, ...places, '--clearenv', ...settings.flatMap(setting), ...more].map(String)
  const ended = (words: string[]) => {
    const [command, ...rest] = inside(...words)
    return spawnSync(command!, rest, { encoding: 'utf8' })
  }
  const write = `try { fs.writeFileSync('/tmp/x', '') } catch ({ code }) { console.log(process.getuid(), code) }`
  expect(ended([args[0], '-e', write]).stdout).toBe('10001 EROFS\n')
  expect(ended(healthCheck(port)).status).toBe(1)
  const [command, ...rest] = inside('--info-fd', '3', ...args)
  const child = spawn(command!, rest, { stdio: ['ignore', 'pipe', 'inherit', 'pipe'] })
  const pid = JSON.parse(await text(child.stdio[3] as Readable))['child-pid']
  await whileReady({ child, pid, port }, async () => expect(ended(healthCheck(port)).status).toBe(0))
  await database.drop()
})

interface Served {
  child: ChildProcess
  /** The program's own. */
  pid: number
  port: number
}

/** Works with a service as soon as it is ready, then ends it as systemd does. */
async function whileReady({ child, pid, port }: Served, work: (url: string) => Promise<void>): Promise<void> {
  const url = `http://127.0.0.1:${port}`
  const exited = new Promise((resolve) => child.on('exit', resolve))
  const said = text(child.stdout!)
  try {
    const ready = async () => (await plainFetch(`${url}/readyz`).catch(() => undefined))?.ok
    await Promise.race([waitFor('readiness', ready), exited])
    expect(await ready()).toBe(true)
    await work(url)
    process.kill(pid, 'SIGTERM')
    expect(await exited).toBe(0)
  } catch (error) {
    if (child.exitCode === null) process.kill(pid, 'SIGKILL')
    throw new Error(`${error}\n${await said}`, { cause: error })
  }
}

test('a service of the package serves its npm packages, which npm installs and runs', async () => {
  chmodSync(folder, 0o755)
  const database = await Database.empty(inject('databaseUrl'))
  const port = await freePort()
  const program = join(tree, 'usr/lib/dormouse-control-plane')
  const env = { DATABASE_URL: database.url, PORT: String(port) }
  const own = [join(program, 'node'), join(program, 'main.js')]
  const [command, ...words] = isRoot() ? [...asUser(65_534), ...own] : own
  const key = execFileSync(command!, [...words, 'init'], { env, encoding: 'utf8' }).trim()
  const child = spawn(command!, words, { env, stdio: ['ignore', 'pipe', 'inherit'] })
  const place = join(folder, 'stranger')
  mkdirSync(place)
  const run = (given: Record<string, string>, ...npm: string[]) => {
    const path = `${join(root, 'node_modules/.bin')}:${process.env.PATH}`
    const cache = {
      npm_config_cache: join(folder, 'npm'),
      npm_config_audit: 'false',
      npm_config_update_notifier: 'false',
    }
    const all = { PATH: path, HOME: place, ...cache, ...given }
    const { status, stdout, stderr } = spawnSync(npm[0]!, npm.slice(1), { cwd: place, env: all, encoding: 'utf8' })
    return { status, stdout, stderr }
  }
  await whileReady({ child, pid: child.pid!, port }, async (url) => {
    const ask = async (path: string, body: object) => {
      const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
      const answer = await plainFetch(`${url}/admin/v1/${path}`, {
        method: 'POST',
        headers,
        body: JSON.stringify(body),
      })
      return (await answer.json()) as Record<string, string>
    }
    const { id } = await ask('orgs', { name: 'acme' })
    const { api_key: apiKey } = await ask('keys', { org_id: id!, name: 'first' })
    expect(run({}, 'npm', 'install', `${url}/sdk/client.tgz`)).toMatchObject({ status: 0 })
    const script = `import { createClient } from '@dormouse/client'
const client = createClient({ baseUrl: process.argv[1], apiKey: process.argv[2] })
console.log((await client.listDesktops()).desktops.length)`
    expect(run({}, 'node', '--input-type=module', '-e', script, url, apiKey!)).toMatchObject({
      status: 0,
      stdout: '0\n',
    })
    const npx = ['npx', '--yes', `${url}/sdk/dormouse.tgz`, 'list']
    const settings = { DORMOUSE_URL: url, DORMOUSE_API_KEY: apiKey! }
    expect(run(settings, ...npx, '--json')).toMatchObject({ status: 0, stdout: expect.stringContaining('"desktops"') })
    expect(run({}, ...npx)).toMatchObject({ status: 6, stderr: expect.stringContaining('Next step: ') })
  })
  await database.drop()
})

test('each program says its version by its own Node', () => {
  for (const [name, file] of [
    ['dormouse-control-plane', 'main.js'],
    ['dormouse-agent', 'main.js'],
    ['dormouse', 'dormouse.js'],
  ]) {
    const program = join(tree, 'usr/lib', name!)
    const words = [join(program, file!), '--version']
    expect(execFileSync(join(program, 'node'), words, { encoding: 'utf8', env: {} })).toBe(`${release.version}\n`)
  }
})
