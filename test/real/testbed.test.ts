// The testbed itself, for real and as root: Postgres and libvirtd below a folder only root may enter, the mini guest on it,
// and nothing left behind. Knows nothing of desktops.
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { LibvirtHost } from '@dormouse/node-libvirt'
import { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ensureMiniImage } from '../../infra/guest-image/mini.ts'
import type { Image } from '../../infra/guest-image/store.ts'
import { type PrivateLibvirtd, startPrivateLibvirtd } from '../../scripts/testbed/libvirtd.ts'
import { startPostgres } from '../../scripts/testbed/postgres.ts'
import { pids, processesIn, readLive, run } from '../../scripts/testbed/processes.ts'
import { waitFor } from '../wait-for.ts'

const root = join(import.meta.dirname, '../..')
const say = () => {}
const long = process.env.DORMOUSE_TEST_LONG === '1'
/** Every file of the run takes its image from there, and the first one builds it. */
const sharedImages = join(root, '.dormouse-test/images')
let closed: string
let deep: string

beforeAll(() => {
  closed = mkdtempSync(join(tmpdir(), 'dormouse-ground-'))
  deep = join(closed, 'a-rather-long-name-for-a-folder'.repeat(4))
  mkdirSync(deep, { mode: 0o700 })
})
afterAll(() => rmSync(closed, { recursive: true, force: true }))

describe('Postgres below a folder that only root may enter', () => {
  const start = (durable = true) =>
    startPostgres({ dataDir: join(deep, 'postgres'), runtimeDir: join(deep, 'run'), say, durable, endsWithUs: true })

  test('keeps committed data after a stop, a power cut and a killed starter', async () => {
    const first = await start()
    await query(first.url, 'create table kept (n int)')
    await query(first.url, 'insert into kept values (1)')
    await first.kill()
    await first.restart()
    await query(first.url, 'insert into kept values (2)')
    const pid = first.pid
    const second = await start() // as after a killed starter: the first one still runs on this folder
    expect(processesIn(join(deep, 'postgres')).map((each) => each.pid)).not.toContain(pid)
    expect(await query(second.url, 'select n from kept order by n')).toEqual([{ n: 1 }, { n: 2 }])
    await second.stop()
    await second.stop()
    expect(processesIn(join(deep, 'postgres'))).toEqual([])
  })

  test('leaves the permissions of its parent folders unchanged; its own folder belongs to another user', () => {
    expect(statSync(closed).mode & 0o077).toBe(0)
    expect(statSync(deep).mode & 0o077).toBe(0)
    expect(statSync(join(deep, 'postgres')).mode & 0o077).toBe(0)
    expect(statSync(join(deep, 'postgres')).uid).not.toBe(0)
  })

  test('refuses connections without the password, and runs in its own session', async () => {
    const postgres = await start(false)
    const open = new URL(postgres.url)
    open.password = 'guess'
    await expect(query(open.href, 'select 1')).rejects.toThrow('password')
    expect(sessionOf(postgres.pid)).toBe(postgres.pid)
    await postgres.stop()
  })

  test('runs from its own copy: `npm ci` removes no file that a session opens later', async () => {
    const postgres = await start(false)
    const mounts = readFileSync(`/proc/${postgres.pid}/mountinfo`, 'utf8').split('\n')
    const source = mounts.map((line) => line.split(' ')).find(([, , , , at]) => at === '/run/postgres')?.[3]
    expect(source).toContain(join(deep, 'run/postgres'))
    await query(postgres.url, 'create extension btree_gist')
    await postgres.stop()
  })

  test('a pid file that names another program does not prevent its start', async () => {
    writeFileSync(join(deep, 'postgres/postmaster.pid'), `${process.pid}\n${join(deep, 'postgres')}\n`)
    const postgres = await start()
    expect(await query(postgres.url, 'select 1 as one')).toEqual([{ one: 1 }])
    await postgres.stop()
  })
})

describe('two private libvirtd at once', () => {
  const hosts: PrivateLibvirtd[] = []
  let image: Image

  const start = (name: string) =>
    startPrivateLibvirtd({
      dir: join(deep, name),
      name,
      hostUuid: `00000000-0000-4000-8000-00000000000${name.length}`,
      say,
      cacheDir: join(root, '.dormouse-test/libvirt-cache'),
      endsWithUs: true,
    })

  beforeAll(async () => {
    image = await ensureMiniImage({ imagesDir: sharedImages, say })
    hosts.push(...(await Promise.all([start('a'), start('bb')])))
  })
  afterAll(() => Promise.all(hosts.map((host) => host.stop())))

  test('each boots the mini guest, and neither sees the other’s', async () => {
    const answers = await Promise.all(hosts.map((host) => boot(host, image)))
    expect(answers).toEqual([['guest'], ['guest']])
    const [a, b] = hosts.map(({ shortDir }) => join(shortDir, 'guest.vnc'))
    expect(await Promise.all([firstBytes(a!), firstBytes(b!)])).toEqual(['RFB ', 'RFB '])
  })

  test('a killed daemon leaves the guest running and finds it again', async () => {
    const [host] = hosts
    const before = await ask(host!, 'guest', 'cat /proc/sys/kernel/random/boot_id')
    await host!.killDaemon()
    expect(host!.daemonRuns()).toBe(false)
    await host!.restartDaemon()
    expect(await ask(host!, 'guest', 'cat /proc/sys/kernel/random/boot_id')).toBe(before)
  })

  test('a starter that comes after a killed one takes the host over with its guest', async () => {
    const again = await start('a')
    expect(again).toMatchObject({ adopted: true, pid: hosts[0]!.pid, socketPath: hosts[0]!.socketPath })
    expect(await ask(again, 'guest', 'echo here')).toBe('here\n')
  })

  test('the first process reaps at once', async () => {
    const orphans = await hosts[0]!.exec('/bin/sh', '-c', 'for i in 1 2 3 4 5 6 7 8; do (sleep 0.01 & echo $!); done')
    const left = `for pid in ${orphans.split('\n').join(' ')}; do [ ! -e /proc/$pid ] || exit 1; done`
    await succeeds('the orphans to be reaped', () => hosts[0]!.exec('/bin/sh', '-c', left))
  })

  test('a power loss ends the guest, and the next start finds its definition and disk', async () => {
    const [host] = hosts
    await host!.powerOff()
    hosts[0] = await start('a')
    expect(hosts[0]).toMatchObject({ adopted: false })
    await using libvirt = await LibvirtHost.open({ socketPath: hosts[0]!.socketPath })
    const guest = await libvirt.domains.lookupByName('guest')
    expect((await guest!.state()).state).toBe('shutoff')
  })

  test('after they are stopped nothing is left but their folders', async () => {
    expect(hosts).toHaveLength(2)
    const names = hosts.map(({ shortDir }) => shortDir)
    const inits = hosts.map(({ pid }) => pid)
    await Promise.all(hosts.splice(0).map((host) => host.stop()))
    expect(names.filter((name) => lstatSync(name, { throwIfNoEntry: false }))).toEqual([])
    expect(inits.filter((pid) => existsSync(`/proc/${pid}/ns/pid`))).toEqual([])
    const commands = () => pids().map((pid) => readLive(() => commandOf(pid)) ?? '')
    await expect.poll(() => commands().filter((command) => names.some((name) => command.includes(name)))).toEqual([])
    expect(readFileSync('/proc/self/mounts', 'utf8')).not.toContain(closed)
  })
})

test('two builds of the image at once give one image, and a third call none', async () => {
  // A build takes a minute of processor time: only at full length is it done twice, from nothing.
  const imagesDir = long ? join(closed, 'images') : sharedImages
  const built: string[] = []
  const build = () => ensureMiniImage({ imagesDir, say: (line) => built.push(line) })
  const [one, other] = await Promise.all([build(), build()])
  expect(one).toEqual(other)
  const lines = built.length
  expect(await build()).toEqual(one)
  expect(built).toHaveLength(lines)
  if (long) expect(readdirSync(imagesDir).sort()).toEqual(['mini', `mini@${one.manifest.version}`])
})

async function query(url: string, text: string): Promise<unknown[]> {
  const client = new Client(url)
  await client.connect()
  try {
    return (await client.query(text)).rows
  } finally {
    await client.end()
  }
}

function sessionOf(pid: number): number {
  return Number(
    readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ')[3],
  )
}

function commandOf(pid: number): string {
  return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
}

/** Boots a guest under the short name and answers the names of all guests there, once its agent answers. */
async function boot(host: PrivateLibvirtd, image: Image): Promise<string[]> {
  const disk = join(host.shortDir, 'guest.qcow2')
  const base = join(image.dir, image.manifest.disk.file)
  await run('qemu-img', ['create', '-q', '-f', 'qcow2', '-F', 'qcow2', '-b', base, disk, '1G'])
  await using libvirt = await LibvirtHost.open({ socketPath: host.socketPath })
  const guest = await libvirt.domains.define(domainXml(host.shortDir, image))
  await guest.create()
  await succeeds('the guest agent', () =>
    libvirt.guestAgent(guest).command({ execute: 'guest-ping' }, { timeoutSecs: 1 }),
  )
  return (await libvirt.domains.list()).map(({ name }) => name)
}

async function ask(host: PrivateLibvirtd, name: string, command: string): Promise<string> {
  await using libvirt = await LibvirtHost.open({ socketPath: host.socketPath })
  const guest = await libvirt.domains.lookupByName(name)
  const agent = libvirt.guestAgent(guest!)
  const exec = { execute: 'guest-exec', arguments: { path: '/bin/sh', arg: ['-c', command], 'capture-output': true } }
  const { pid } = (await succeeds('the command to start', () => agent.command(exec))) as { pid: number }
  const status = await succeeds('the command to end', async () => {
    const now = (await agent.command({ execute: 'guest-exec-status', arguments: { pid } })) as Record<string, unknown>
    return now.exited ? now : Promise.reject(new Error('still runs'))
  })
  return Buffer.from(String(status['out-data'] ?? ''), 'base64').toString()
}

/** What an attempt answers once it succeeds: emulated guests on a busy machine are slow. */
async function succeeds<T>(what: string, attempt: () => Promise<T>): Promise<T> {
  const tried = await waitFor(
    what,
    async () =>
      attempt().then(
        (answer) => ({ answer }),
        () => undefined,
      ),
    90_000,
  )
  return tried.answer
}

function firstBytes(socketPath: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(socketPath).once('error', reject)
    socket.once('data', (data) => {
      socket.destroy()
      resolve(data.toString('latin1', 0, 4))
    })
  })
}

function domainXml(folder: string, { dir, manifest }: Image): string {
  return `<domain type='qemu'><name>guest</name><memory unit='MiB'>128</memory><vcpu>1</vcpu>
    <os><type arch='${manifest.arch}' machine='${manifest.machine}'>hvm</type><kernel>${join(dir, manifest.kernel.file)}</kernel>
    <initrd>${join(dir, manifest.initrd.file)}</initrd><cmdline>${manifest.cmdline}</cmdline></os><features><acpi/></features>
    <cpu mode='custom' match='exact' check='none'><model fallback='forbid'>qemu64</model></cpu>
    <devices><disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source file='${folder}/guest.qcow2'/>
    <target dev='vda' bus='virtio'/></disk><controller type='usb' model='none'/>
    <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>
    <graphics type='vnc' socket='${folder}/guest.vnc'/><video><model type='vga'/></video><memballoon model='none'/></devices></domain>`
}
