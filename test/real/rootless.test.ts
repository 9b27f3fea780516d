// Guarantee: `npm start` brings real desktops up for a user who is not root, by libvirt's session mode, and leaves nothing
// running; if that cannot be, it says what is missing and what to do instead.
import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { isRoot } from '../../scripts/testbed/namespaces.ts'
import { pids, readLive } from '../../scripts/testbed/processes.ts'
import { HandedOn } from './parts/handed-on.ts'
import { Instance } from './parts/instance.ts'
import { expectKept, guest, leaveWitness } from './parts/witness.ts'

const long = process.env.DORMOUSE_TEST_LONG === '1'
const root = fileURLToPath(new URL('../../', import.meta.url))
/** Somebody without any of root's powers, to whom root's files are their own: so a clone may lie anywhere. */
const nobody = isRoot() ? ['unshare', '--user', '--map-user=65534', '--map-group=65534', '--'] : []

let instance: Instance
// At length only: a start takes half a minute of processor time, and what it says if it cannot is shown without one.
beforeAll(async () => {
  if (long) instance = await Instance.start({}, ['--no-tour'], nobody)
})
afterAll(async () => {
  await instance?.[Symbol.asyncDispose]()
})

const desktops = new HandedOn(async () => {
  const desktop = await instance.create()
  await desktop.wake()
  return desktop
})

test.runIf(long)(
  'a desktop is created, used, hibernated and woken with its memory and files, and its screen is shown',
  async () => {
    const desktop = await desktops.take()
    const before = await leaveWitness(desktop, 4)
    await desktop.hibernate()
    expect((await desktop.wake()).result?.resumedFrom).toBe('memory')
    await expectKept(desktop, before)
    expect(await guest(desktop, 'ls /sys/class/net')).toBe('lo\n')
    expect(Buffer.from(await desktop.screenshot()).toString('latin1', 1, 4)).toBe('PNG')
    desktops.giveBack(desktop)
  },
)

test.runIf(long)(
  'Ctrl-C hibernates a desktop and leaves no process behind; it can be destroyed after the next start',
  async () => {
    const desktop = await desktops.take()
    const short = readFileSync(join(instance.dataDir, 'short-name'), 'utf8').trim()
    const own = () =>
      pids().filter((pid) => [instance.dataDir, `/tmp/dm-${short}`].some((path) => wordsOf(pid).includes(path)))
    expect(own()).not.toEqual([])
    await instance.down()
    expect(own()).toEqual([])
    expect(existsSync(`/tmp/dm-${short}`)).toBe(false)
    expect(instance.log).toContain(`${desktop.id} hibernated`)
    await instance.up()
    await desktop.destroy()
  },
)

/** What a process was started with, and in what environment. */
const wordsOf = (pid: number): string =>
  ['environ', 'cmdline'].map((name) => readLive(() => readFileSync(`/proc/${pid}/${name}`, 'utf8')) ?? '').join()

/** What `npm start` says if it cannot. */
function refused(env: Record<string, string>, before: string[] = []): string {
  const [command = 'sh', ...words] = [
    ...before,
    ...nobody,
    'sh',
    join(root, 'scripts/with-node.sh'),
    'scripts/start.ts',
  ]
  const { status, stderr } = spawnSync(command, words, { cwd: root, env: { ...process.env, ...env }, encoding: 'utf8' })
  expect(status).toBe(1)
  return stderr
}

test('a folder that is not writable is named, with what to do', () => {
  const folder = mkdtempSync(join(tmpdir(), 'dormouse-theirs-'))
  chmodSync(folder, 0o500)
  const dataDir = join(folder, 'data')
  expect(refused({ DORMOUSE_DATA: dataDir })).toContain(
    `cannot use ${dataDir}: permission denied; let the user that this program runs as read and write it, or correct DORMOUSE_DATA`,
  )
  rmSync(folder, { recursive: true })
})

test.runIf(isRoot())('missing packages are named, and so is the start that needs none', () => {
  const folder = mkdtempSync(join(tmpdir(), 'dormouse-bare-'))
  const hide = 'mount -t tmpfs none /usr/lib/x86_64-linux-gnu/libvirt && exec "$@"'
  const said = refused({ DORMOUSE_DATA: join(folder, 'data') }, ['unshare', '-m', '/bin/sh', '-c', hide, 'sh'])
  expect(said).toMatch(/as root:\n\n {2}apt-get .*libvirt-daemon-driver-qemu/)
  expect(said).toContain('npm start -- --simulated 3')
  rmSync(folder, { recursive: true })
})
