// Guarantee: `admin host install` over a real SSH server ends with one enrolled host, whatever interrupts it, changes nothing
// that is right, and trusts no machine whose key it does not know.
import { existsSync, globSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { CliError } from '../../apps/cli/src/failures.ts'
import { type InstallOptions, install } from '../../apps/cli/src/install/install.ts'
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
  clone?: string
  onProgress?: InstallGiven['onProgress']
  args?: readonly string[]
}

const work = ({ clone, args, onProgress }: Given = {}) =>
  installWork(stack, {
    from: clone ?? machine.clone(),
    session: { args: args ?? machine.sshArgs() },
    ...(onProgress && { onProgress }),
  })

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
    const checked = await run({}, { checkOnly: true })
    expect(checked.checks.map(({ name, result }) => [name, result])).toContainEqual([`to ${stack.url}`, 'ok'])
    expect(existsSync(machine.path('/opt/dormouse'))).toBe(false)
    const first = await run()
    expect(first).toMatchObject({ outcome: 'installed', name: 'machine', host_id: (await active())[0]!.id })
    expect(statSync(machine.path('/etc/dormouse/agent.env')).mode & 0o777).toBe(0o600)
    expect(existsSync(machine.path('/var/cache/dormouse-install'))).toBe(false)
    // The invitation is in the agent's settings, and in no other file and no log.
    const told = globSync('{etc,opt,lib,cache,units}/**', { cwd: machine.folder, withFileTypes: true })
      .filter((file) => file.isFile())
      .map((file) => join(file.parentPath, file.name))
      .filter((file) => readFileSync(file, 'latin1').includes('ENROL_TOKEN=dormouse_invite_'))
    expect(told).toEqual([machine.path('/etc/dormouse/agent.env')])
    const restarts = machine.asked.filter((words) => words.startsWith('restart')).length
    const second = await run()
    expect(second.steps.filter(({ result }) => result === 'changed')).toEqual([])
    expect(machine.asked.filter((words) => words.startsWith('restart'))).toHaveLength(restarts)
    expect(await count()).toBe(before + 1)
  },
)

atLength('cut at any step, the next run ends well, and the machine is one host', async () => {
  const before = await count()
  const cuts = ['agent/', 'agent/installing', 'enrolment']
  const clone = machine.clone()
  for (const cut of cuts) {
    const onProgress = (step: string, shown: string) => {
      const at = shown === '' ? step : `${step}/${shown.includes('MiB') ? '' : shown}`
      if (at === cut) machine.cut()
    }
    // Its end may come before the cut is noticed.
    await run({ onProgress, clone }).catch((error: CliError) => {
      expect(error.next, `${cut}: ${error.message}`).toContain('run')
    })
  }
  const { host_id } = await run({ clone })
  expect(await active()).toMatchObject([{ id: host_id }])
  expect(await count()).toBe(before + 1)
})

atLength('an invitation that has expired before the host enrolled is replaced', async () => {
  const before = await count()
  const settings = machine.path('/etc/dormouse/agent.env')
  const spent = `dormouse_invite_${'x'.repeat(43)}`
  mkdirSync(join(settings, '..'), { recursive: true })
  writeFileSync(
    settings,
    `DORMOUSE_AGENT_CONTROL_PLANES=${stack.url}\nDORMOUSE_AGENT_ENROL_TOKEN=${spent}\nDORMOUSE_AGENT_STATE_DIR=/var/lib/dormouse-agent\n`,
    { mode: 0o600 },
  )
  expect(await run()).toMatchObject({ outcome: 'installed' })
  expect(readFileSync(settings, 'utf8')).not.toContain(spent)
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
    const stopped = await failure(upgradeAll(await work({ clone: machine.clone('new') }), targets))
    expect(stopped.facts).toMatchObject({
      left: ['root@127.0.0.1:1', 'root@never.invalid'],
      done: [{ host_id, outcome: 'installed' }],
    })
    expect(readFileSync(machine.path('/opt/dormouse/agent/main.js'), 'utf8')).toContain('// new')
    expect(await active()).toMatchObject([{ id: host_id, state: 'active' }])
    const refused = await failure(uninstall(await work(), readTarget(machine.target)))
    expect(refused.facts).toMatchObject({ code: 'has_desktops', host_id, desktops: [desktop.id] })
    await stack.client.settle('destroy', desktop.id)
    expect(await uninstall(await work(), readTarget(machine.target))).toMatchObject({ outcome: 'uninstalled', host_id })
    for (const path of ['/opt/dormouse', '/etc/dormouse', '/var/lib/dormouse-agent'])
      expect(existsSync(machine.path(path)), path).toBe(false)
    expect(await uninstall(await work(), readTarget(machine.target))).toMatchObject({ outcome: 'unchanged' })
  },
)
