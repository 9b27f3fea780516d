// Guarantee: `admin host install` over a real SSH server ends with one enrolled host, whatever interrupts it, changes nothing
// that is right, and trusts no machine whose key it does not know.
import { cpSync, existsSync, globSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { CliError } from '../../apps/cli/src/failures.ts'
import { type InstallOptions, install } from '../../apps/cli/src/install/install.ts'
import type { Source } from '../../apps/cli/src/install/package.ts'
import { readTarget } from '../../apps/cli/src/install/target.ts'
import { uninstall } from '../../apps/cli/src/install/uninstall.ts'
import { upgradeAll } from '../../apps/cli/src/install/upgrade.ts'
import { isRoot } from '../../scripts/testbed/namespaces.ts'
import { ensurePackages } from '../../scripts/testbed/packages.ts'
import { Stack } from '../stack.ts'
import { type InstallGiven, installWork } from './parts/install-work.ts'
import { SshMachine } from './parts/ssh-machine.ts'

let stack: Stack
let machine: SshMachine
beforeAll(async () => {
  await ensurePackages({ say: console.log, tests: true })
  stack = await Stack.start({ hosts: 0, controlPlane: { heartbeatMs: 300 } })
  machine = await SshMachine.start()
})
beforeEach(() => machine.wipe())
afterAll(async () => {
  // The agent first: the stack waits until nothing is connected to it.
  await machine?.[Symbol.asyncDispose]()
  await stack?.[Symbol.asyncDispose]()
})

const whereRoot = test.skipIf(!isRoot())
/** `npm run test:install` runs these, too: each installs the agent several times. */
const atLength = test.skipIf(!isRoot() || process.env.DORMOUSE_TEST_LONG !== '1')

interface Given {
  source?: Source
  controlPlanes?: string[]
  onProgress?: InstallGiven['onProgress']
  args?: readonly string[]
}

const work = ({ source, args, ...given }: Given = {}) =>
  installWork(stack, { source: source ?? machine.package(), session: { args: args ?? machine.sshArgs() }, ...given })

const ordinary: InstallOptions = { checkOnly: false, trial: false }
const run = async (given: Given = {}, options: Partial<InstallOptions> = {}) =>
  install(await work(given), readTarget(machine.target), { ...ordinary, ...options })
/** Those of this test: the machine was another host in each one before. */
const active = async () => (await (await work()).admin.listHosts()).hosts.filter(({ linked }) => linked)
const count = async () => (await (await work()).admin.listHosts()).hosts.length
const failure = (work: Promise<unknown>): Promise<CliError> =>
  work.then(
    () => expect.unreachable('it should have failed'),
    (error: unknown) => {
      expect(error).toBeInstanceOf(CliError)
      return error as CliError
    },
  )

whereRoot(
  'a check changes nothing; an installation ends with a usable host, and a second one finds nothing to do',
  async () => {
    const before = await count()
    const source = machine.package()
    const checked = await run({ source }, { checkOnly: true })
    expect(checked.checks.map(({ name, result }) => `${name}: ${result}`)).toEqual(
      ['distribution', 'systemd', 'disk', 'package', 'enrolment'].map((name) => `${name}: ok`),
    )
    expect(machine.asked).toEqual([''])
    const first = await run({ source })
    expect(first).toMatchObject({ outcome: 'installed', name: 'machine', host_id: (await active())[0]!.id })
    expect(first.checks).toContainEqual({
      name: 'control plane',
      result: 'ok',
      detail: `${stack.url}: TCP and WebSocket work`,
    })
    expect(existsSync(machine.path('/var/cache/dormouse-install'))).toBe(false)
    // The invitation is in no file and no log.
    const told = globSync('{etc,opt,lib,cache,units}/**', { cwd: machine.folder, withFileTypes: true })
      .filter((file) => file.isFile())
      .map((file) => join(file.parentPath, file.name))
      .filter((file) => /dormouse_invite_[\w-]{30}/.test(readFileSync(file, 'latin1')))
    expect(told).toEqual([])
    const restarts = () => machine.asked.filter((words) => words.startsWith('restart')).length
    expect(restarts()).toBe(0)
    const second = await run({ source })
    expect(second.steps.filter(({ result }) => result === 'changed')).toEqual([])
    expect(second.checks.find(({ name }) => name === 'control plane')?.detail).toContain('it knows this host')
    expect(await count()).toBe(before + 1)
  },
)

whereRoot('a machine that could not work gets no identity', async () => {
  const before = await count()
  const unreached = await failure(run({ controlPlanes: ['http://127.0.0.1:1'] }))
  expect(unreached.message).toContain('control plane: http://127.0.0.1:1 was not reached: nothing listens there')
  expect(unreached.facts).toMatchObject({ code: 'checks_failed', report: { outcome: 'blocked' } })
  expect(existsSync(machine.path('/var/lib/dormouse-agent/identity.json'))).toBe(false)
  mkdirSync(machine.path('/opt/dormouse/agent'), { recursive: true })
  expect(await failure(run({ source: { kind: 'own', version: undefined } }))).toMatchObject({
    message: expect.stringContaining('package: an agent of a development build is in /opt/dormouse'),
    next: expect.stringContaining('systemctl disable --now dormouse-agent'),
  })
  expect(await count()).toBe(before)
})

atLength('a package comes from a repository that is added, or from those that the machine has', async () => {
  const own: Source = { kind: 'own', version: undefined }
  expect((await failure(run({ source: own }))).next).toContain('--repository <url>')
  const { path } = machine.package()
  cpSync(path, join(machine.folder, 'units/repository.deb'))
  const key = '-----BEGIN PGP PUBLIC KEY BLOCK-----\n'
  const source = { kind: 'repository', url: 'https://apt.example', key, version: '1.0' } as const
  expect(await run({ source })).toMatchObject({ outcome: 'installed' })
  expect(readFileSync(machine.path('/etc/apt/sources.list.d/dormouse.sources'), 'utf8')).toBe(
    'Types: deb\nURIs: https://apt.example\nSuites: stable\nComponents: main\nSigned-By: /etc/apt/keyrings/dormouse.asc\n',
  )
  expect(readFileSync(machine.path('/etc/apt/keyrings/dormouse.asc'), 'utf8')).toBe(key)
  const apt = () => readFileSync(join(machine.folder, 'units/apt'), 'utf8').trim().split('\n')
  expect(apt().at(-1)).toContain('dormouse-agent=1.0')
  const asked = apt().length
  expect(await run({ source: own })).toMatchObject({ outcome: 'unchanged' })
  expect(apt()).toHaveLength(asked)
})

atLength('cut at any step, the next run ends well, and the machine is one host', async () => {
  const before = await count()
  const source = machine.package()
  for (const cut of ['package', 'enrolment', 'service']) {
    const onProgress = (step: string) => {
      if (step === cut) machine.cut()
    }
    // Its end may come before the cut is noticed.
    await run({ onProgress, source }).catch((error: CliError) => {
      expect(error.next, `${cut}: ${error.message}`).toContain('run')
    })
  }
  const { host_id } = await run({ source })
  expect(await active()).toMatchObject([{ id: host_id }])
  expect(await count()).toBe(before + 1)
})

whereRoot('a machine whose key is unknown or changed gets nothing; jump hosts are gone through', async () => {
  const logins = () => readFileSync(join(machine.folder, 'sshd.log'), 'utf8').split('Accepted').length
  const before = logins()
  const unknown = await failure(run({ args: machine.sshArgs({ knownHosts: '' }) }))
  expect(unknown).toMatchObject({ facts: { code: 'host_key' }, next: expect.stringContaining(`-p ${machine.port}`) })
  const other = `[127.0.0.1]:${machine.port} ssh-ed25519 ${Buffer.alloc(51).toString('base64')}\n`
  expect((await failure(run({ args: machine.sshArgs({ knownHosts: other }) }))).facts).toMatchObject({
    code: 'host_key',
  })
  expect(logins()).toBe(before)
  await run({ args: [...machine.sshArgs(), '-J', 'jump'] }, { checkOnly: true })
  expect(logins()).toBe(before + 2)
})

whereRoot('a login that is refused and a machine that does not listen are told apart', async () => {
  const refused = await failure(run({ args: machine.sshArgs({ key: join(machine.folder, 'host_key') }) }))
  expect(refused.message).toMatch(/did not accept the login: .*Permission denied/)
  const absent = await failure(install(await work(), readTarget('root@127.0.0.1:1'), ordinary))
  expect(absent.message).toMatch(/is unreachable: .*Connection refused/)
})

atLength(
  'a round of upgrades stops at the first failure and names what is left; nothing is uninstalled while desktops are there',
  async () => {
    const { host_id } = await run()
    const desktop = await stack.client.createDesktop({ tier: 'small' })
    await stack.client.settle('wake', desktop.id)
    const targets = [machine.target, 'root@127.0.0.1:1', 'root@never.invalid'].map((text) => readTarget(text))
    const stopped = await failure(upgradeAll(await work({ source: machine.package('new') }), targets))
    expect(stopped.facts).toMatchObject({
      left: ['root@127.0.0.1:1', 'root@never.invalid'],
      done: [{ host_id, outcome: 'installed' }],
    })
    expect(readFileSync(machine.path('/var/lib/package/main.js'), 'utf8')).toContain('// new')
    expect(await active()).toMatchObject([{ id: host_id, state: 'active' }])
    const refused = await failure(uninstall(await work(), readTarget(machine.target)))
    expect(refused.facts).toMatchObject({ code: 'has_desktops', host_id, desktops: [desktop.id] })
    await stack.client.settle('destroy', desktop.id)
    expect(await uninstall(await work(), readTarget(machine.target))).toMatchObject({ outcome: 'uninstalled', host_id })
    expect(existsSync(machine.path('/var/lib/dormouse-agent'))).toBe(false)
    expect(await uninstall(await work(), readTarget(machine.target))).toMatchObject({ outcome: 'unchanged' })
  },
)
