// Guarantee: on a bare Debian with a real systemd, `admin host install` ends with a host that runs a real desktop under the
// hardened unit; an upgrade keeps it awake, and an uninstallation leaves nothing of it.
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { CliError } from '../../apps/cli/src/failures.ts'
import { install } from '../../apps/cli/src/install/install.ts'
import type { Source } from '../../apps/cli/src/install/package.ts'
import { readTarget } from '../../apps/cli/src/install/target.ts'
import { uninstall } from '../../apps/cli/src/install/uninstall.ts'
import { upgradeAll } from '../../apps/cli/src/install/upgrade.ts'
import { ensureMiniImage } from '../../infra/guest-image/mini.ts'
import { packDebian } from '../../scripts/release/debian.ts'
import { installWork } from '../integration/parts/install-work.ts'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'
import { DebianMachine, password } from './debian-machine.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))

/** One is made with what the processors have left. */
const templateMs = 300_000

let folder: string
let stack: Stack
let machine: DebianMachine
beforeAll(async () => {
  folder = mkdtempSync('/var/tmp/dormouse-install-')
  stack = await Stack.start({ hosts: 0 })
  machine = await DebianMachine.boot(folder)
})
afterAll(async () => {
  await machine?.[Symbol.asyncDispose]()
  await stack?.[Symbol.asyncDispose]()
  rmSync(folder, { recursive: true, force: true })
})

/** The agent's package, as a release has it. */
async function packageOf(version: string): Promise<Source> {
  const given = { npm: '', names: ['dormouse-agent'], version, epoch: 1_790_000_000, uncompressed: true }
  const [name] = await packDebian(folder, { ...given, say: () => undefined })
  const path = join(folder, name!)
  return { kind: 'file', path, name: name!, bytes: statSync(path).size }
}

const own: Source = { kind: 'own', version: undefined }
const asRoot = () => readTarget(`root@127.0.0.1:${machine.port}`)
const work = (source: Source = own, typed?: string[]) =>
  installWork(stack, { source, session: { args: machine.sshArgs }, ...(typed && { typed }) })

test('a bare machine becomes a host, and a second run changes nothing', async () => {
  const source = await packageOf('1.0.0')
  const began = performance.now()
  const done = await install(await work(source), asRoot(), { name: 'bare', checkOnly: false, trial: false })
  console.log(`a bare machine: ${((performance.now() - began) / 1_000).toFixed(1)} s`)
  expect(done).toMatchObject({ outcome: 'installed', name: 'bare' })
  expect(done.steps.map(({ name, result }) => `${name}: ${result}`)).toContain('limits: changed')
  const again = await install(await work(), asRoot(), { name: 'bare', checkOnly: false, trial: false })
  expect(again.steps.filter(({ result }) => result === 'changed')).toEqual([])
  expect(again).toMatchObject({ outcome: 'unchanged', host_id: done.host_id })
})

test('the unit is sound, runs hardened, and libvirt has its limits', async () => {
  expect(await machine.ssh('systemd-analyze verify dormouse-agent.service 2>&1')).toBe('')
  // A number, and it grows with what the unit may do.
  const exposure = /exposure level for dormouse-agent.service: ([\d.]+)/
  expect(
    Number(exposure.exec(await machine.ssh('systemd-analyze security --no-pager dormouse-agent'))?.[1]),
  ).toBeLessThan(3)
  expect(await machine.ssh('systemctl show -p LimitNOFILE --value libvirtd')).toBe('65536\n')
  expect(await machine.ssh('grep -c ^max_workers /etc/libvirt/libvirtd.conf')).toBe('1\n')
})

test('a user with sudo and a password does the same; a desktop is tried, and one stays awake through an upgrade', async () => {
  const { dir } = await ensureMiniImage({ imagesDir: join(root, '.dormouse-test/images'), say: console.log })
  cpSync(dir, join(machine.root, 'var/lib/dormouse-images/mini'), { recursive: true, dereference: true })
  machine.withoutCgroups()
  await machine.ssh('chmod -R a+rX /var/lib/dormouse-images; systemctl restart libvirtd')
  const target = readTarget(`op@127.0.0.1:${machine.port}`)
  const tried = await install(await work(own, [password]), target, { checkOnly: false, trial: true, image: 'mini' })
  expect(tried.steps.find(({ name }) => name === 'trial')?.detail).toMatch(/^a desktop with mini woke in/)
  const desktop = await stack.client.createDesktop({ tier: 'small', image_version: 'mini' })
  await stack.client.settle('wake', desktop.id)
  await expectFirstWakeByTemplate()
  const [upgraded] = await upgradeAll(await work(await packageOf('1.0.1')), [asRoot()])
  expect(upgraded).toMatchObject({ outcome: 'installed' })
  expect(upgraded!.steps.map(({ detail }) => detail)).toEqual(
    expect.arrayContaining(['dormouse-agent 1.0.1', '1 awake']),
  )
  expect((await stack.client.getDesktop(desktop.id)).state).toBe('awake')
  const refused = await uninstall(await work(), asRoot()).catch((error: unknown) => error)
  expect(refused).toBeInstanceOf(CliError)
  expect((refused as CliError).facts).toMatchObject({ code: 'has_desktops', desktops: [desktop.id] })
  await stack.client.settle('destroy', desktop.id)
})

/** The agent of the package makes a template of what it has booted, and a new desktop begins with that. */
async function expectFirstWakeByTemplate(): Promise<void> {
  const templates = async () => (await stack.replica.parts.hosts.list())[0]?.templates ?? []
  await waitFor('a template', async () => (await templates()).length > 0, templateMs).catch(async (error: Error) => {
    throw new Error(`${error.message}\n${await machine.ssh('journalctl -u dormouse-agent -n 40 --no-pager -o cat')}`)
  })
  const { id } = await stack.client.createDesktop({ tier: 'small', image_version: 'mini' })
  expect((await stack.client.settle('wake', id)).result).toMatchObject({ resumed_from: 'image', path: 'template' })
  expect((await stack.client.exec(id, { command: 'hostname' })).stdout.trim()).toBe(`mini-${id.slice(-12)}`)
  await stack.client.settle('hibernate', id)
  expect((await stack.client.settle('wake', id)).result).toMatchObject({ resumed_from: 'memory' })
  await stack.client.settle('destroy', id)
  expect(await machine.ssh('find /var/lib -name "*.new" -path "*/templates/*"')).toBe('')
}

test('an uninstallation leaves no agent, no settings and no identity', async () => {
  await uninstall(await work(), asRoot())
  for (const path of ['usr/lib/dormouse-agent', 'etc/dormouse', 'var/lib/dormouse-agent', 'var/lib/dormouse-disks'])
    expect(existsSync(join(machine.root, path)), path).toBe(false)
  expect(await machine.ssh('systemctl list-units --all --plain --no-legend dormouse-agent.service')).toBe('')
  expect(readFileSync(join(machine.root, 'etc/libvirt/libvirtd.conf'), 'utf8')).toContain('\nmax_workers = ')
})
