// Guarantee: the installer puts whole files where the unit expects them, protects the invitation and keeps the settings.
import { execFileSync, spawnSync } from 'node:child_process'
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
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

test('an agent trusts the private authority whose certificate is there, and one that was set stays', () => {
  write('etc/dormouse/control-plane-ca.pem')
  install(['--control-plane', 'https://one.example'], 'first\n')
  const settings = () => readFileSync(at('etc/dormouse/agent.env'), 'utf8').match(/^NODE_EXTRA_CA_CERTS=.*$/gm)
  expect(settings()).toEqual(['NODE_EXTRA_CA_CERTS=/etc/dormouse/control-plane-ca.pem'])
  expect(statSync(at('etc/dormouse/agent.env')).mode & 0o777).toBe(0o600)
  install([])
  expect(settings()).toHaveLength(1)
  write('etc/dormouse/agent.env', 'NODE_EXTRA_CA_CERTS=/etc/ssl/own.pem\n')
  install([])
  expect(settings()).toEqual(['NODE_EXTRA_CA_CERTS=/etc/ssl/own.pem'])
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

const desktopId = (at: number) => `01990000-0000-7000-8000-00000000000${at}`
const at = (path: string) => join(target, path)
const write = (path: string, content = 'x') => {
  mkdirSync(join(at(path), '..'), { recursive: true })
  writeFileSync(at(path), content)
}
const uninstall = (args: string[] = []) =>
  spawnSync(join(clone, 'scripts/install-agent'), ['--uninstall', '--root', target, ...args], { encoding: 'utf8' })

/** Every file below the folder. */
const filesIn = (folder: string) =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => !entry.isDirectory())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .sort()

function installed(settings = ''): void {
  install(['--control-plane', 'https://one.example'], 'an-invitation\n')
  appendFileSync(at('etc/dormouse/agent.env'), settings)
  for (const name of ['identity.json', 'machine.json', 'lock', 'journal.log', `guest-keys/${desktopId(1)}.json`])
    write(`var/lib/dormouse-agent/${name}`)
}

test('an uninstallation removes what was installed and the identity, and nothing else', () => {
  installed()
  const others = [
    'etc/dormouse/control-plane.env',
    'etc/systemd/system/other.service',
    'opt/dormouse/control-plane/main.js',
    'opt/dormouse/bin/node',
    'var/lib/dormouse-agent/of-somebody-else',
    'var/lib/dormouse-images/mini/disk.qcow2',
  ]
  for (const path of others) if (!existsSync(at(path))) write(path)
  expect(uninstall()).toMatchObject({ status: 0, stderr: '' })
  expect(filesIn(target)).toEqual(others.sort())
})

test('alone on a machine, nothing of it is left; a second uninstallation finds nothing to do', () => {
  installed()
  expect(uninstall().status).toBe(0)
  expect(filesIn(target)).toEqual([])
  for (const path of ['opt/dormouse', 'etc/dormouse', 'var/lib/dormouse-agent'])
    expect(existsSync(at(path))).toBe(false)
  expect(uninstall()).toMatchObject({
    status: 0,
    stdout: `The agent is not installed in ${target}; nothing was removed.\n`,
  })
})

test('Node stays where a unit of another name runs with it', () => {
  installed()
  write('etc/systemd/system/api.service', 'ExecStart=/opt/dormouse/bin/node /srv/main.js\n')
  expect(uninstall().status).toBe(0)
  expect(existsSync(at('opt/dormouse/bin/node'))).toBe(true)
})

test.each<[string, string, string]>([
  ['a saved memory', '', `var/lib/dormouse-agent/memory/${desktopId(1)}/1.save`],
  ['a disk', '', `var/lib/dormouse-disks/${desktopId(1)}.qcow2`],
  ['a disk that arrives', '', `var/lib/dormouse-disks/${desktopId(1)}.arriving`],
  ['a disk in the state folder', '', `var/lib/dormouse-agent/disks/${desktopId(1)}.qcow2`],
  ['a memory elsewhere', 'DORMOUSE_AGENT_MEMORY_DIR="/srv/memory"\n', `srv/memory/${desktopId(1)}/1.save`],
  ['a disk elsewhere', "DORMOUSE_AGENT_DISKS_DIR='/srv/disks'\n", `srv/disks/${desktopId(1)}.qcow2`],
])('%s of a desktop keeps everything, and the refusal counts', (_what, settings, path) => {
  installed(settings)
  write(path)
  write(path.replace(desktopId(1), desktopId(2)))
  const before = filesIn(target)
  const refused = uninstall()
  expect([refused.status, refused.stderr]).toEqual([1, expect.stringContaining('this host has 2 desktops')])
  expect(refused.stderr).toContain('Next step: move or destroy them')
  expect(filesIn(target)).toEqual(before)
})

test('with --root, nothing outside it is touched, whatever settings and links say', () => {
  const outside = join(clone, 'outside')
  mkdirSync(outside)
  writeFileSync(join(outside, 'identity.json'), 'the real one')
  installed(`DORMOUSE_AGENT_STATE_DIR=${outside}\n`)
  expect(uninstall().status).toBe(0)
  expect(filesIn(outside)).toEqual(['identity.json'])
  for (const settings of [`DORMOUSE_AGENT_STATE_DIR=/../outside\n`, 'DORMOUSE_AGENT_STATE_DIR=var/lib\n']) {
    write('etc/dormouse/agent.env', settings)
    expect(uninstall().status).toBe(1)
  }
  rmSync(at('var/lib/dormouse-agent'), { recursive: true, force: true })
  symlinkSync(outside, at('var/lib/dormouse-agent'))
  writeFileSync(at('etc/dormouse/agent.env'), '')
  expect(uninstall().stderr).toContain('leads out of')
  expect(filesIn(outside)).toEqual(['identity.json'])
})

test.each([
  [['--uninstall', '--root', ''], '--root needs a value'],
  [['--root', '--uninstall'], '--root needs a value'],
  [['--uninstall', '--root'], '--root needs a value'],
  [['--control-plane', ''], '--control-plane needs a value'],
  [['--name', ''], '--name needs a value'],
  [['--uninstall', '--root', '/no/such'], 'which does not exist'],
  [['--uninstall', '--root', '/etc/passwd'], 'which is no folder'],
])('%j changes nothing, and says what is wrong', (args, why) => {
  const { status, stderr } = spawnSync(join(clone, 'scripts/install-agent'), ['--dry-run', ...args], {
    encoding: 'utf8',
  })
  expect([status, stderr]).toEqual([1, expect.stringContaining(why)])
})

test('the root of the machine is no --root, and a dry run removes nothing', () => {
  const script = join(clone, 'scripts/install-agent')
  for (const root of ['/', '//', '/tmp/..']) {
    const { status, stderr } = spawnSync(script, ['--uninstall', '--dry-run', '--root', root], { encoding: 'utf8' })
    expect([status, stderr]).toEqual([1, expect.stringContaining('leave --root out')])
  }
  installed()
  const before = filesIn(target)
  expect(uninstall(['--dry-run']).stdout).toContain('would run: rm -f')
  expect(filesIn(target)).toEqual(before)
})
