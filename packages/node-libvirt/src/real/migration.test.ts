/** Two daemons, one machine that runs and has a disk: it moves to the other one and back, peer to peer or by our own calls. */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { errorCode, migrateFlag, xmlFlag } from '../constants.ts'
import { LibvirtHost } from '../host.ts'
import { PrivateLibvirtd } from '../testing/private-libvirtd.ts'

const uuid = '00000000-0000-4000-8000-00000000cafe'

let starting: Promise<PrivateLibvirtd>[] = []
let daemons: PrivateLibvirtd[] = []
let hosts: LibvirtHost[] = []

beforeAll(async () => {
  starting = [PrivateLibvirtd.start(), PrivateLibvirtd.start()]
  daemons = await Promise.all(starting)
  hosts = await Promise.all(daemons.map(({ socketPath }) => LibvirtHost.open({ socketPath })))
  for (const daemon of daemons) mkdirSync(room(daemon))
})

afterAll(async () => {
  for (const host of hosts) host.close()
  for (const start of await Promise.allSettled(starting)) {
    if (start.status === 'fulfilled') await start.value[Symbol.asyncDispose]()
  }
})

/** A folder that both daemons see under one name. */
const room = ({ folder }: PrivateLibvirtd) => `${folder}/room`
const diskOf = (daemon: PrivateLibvirtd) => `${room(daemon)}/disk`

const makeDisk = (daemon: PrivateLibvirtd) => writeFileSync(diskOf(daemon), Buffer.alloc(8 * 1024 * 1024))

const xml = (disk: string) => `<domain type='qemu'><name>moving</name><uuid>${uuid}</uuid>
  <memory unit='MiB'>32</memory><vcpu>1</vcpu><os><type arch='x86_64'>hvm</type></os>
  <cpu mode='custom' match='exact' check='none'><model fallback='forbid'>qemu64</model></cpu>
  <devices><emulator>/usr/bin/qemu-system-x86_64</emulator><memballoon model='none'/>
    <controller type='usb' model='none'/>
    <disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='${disk}'/>
      <target dev='vda' bus='virtio'/></disk>
  </devices></domain>`

test('a machine that runs moves with its disk to another daemon, and back', async () => {
  makeDisk(daemons[0]!)
  const domain = await hosts[0]!.domains.createXml(xml(diskOf(daemons[0]!)))
  for (const [from, to] of [
    [0, 1],
    [1, 0],
  ] as const) {
    const [here, there] = [daemons[from]!, daemons[to]!]
    makeDisk(there)
    const mine = hosts[from]!.domains.of(domain)
    await mine.migrateTo(`qemu+unix:///system?socket=${there.socketPath}`, {
      flags: migrateFlag.live | migrateFlag.nonSharedDisk,
      migrateUri: `unix://${room(there)}/qemu.sock`,
      disksUri: `unix://${room(there)}/disks.sock`,
      xml: (await mine.xml(xmlFlag.migratable)).replaceAll(diskOf(here), diskOf(there)),
    })
    expect(await hosts[from]!.domains.lookup(uuid)).toBeUndefined()
    const moved = hosts[to]!.domains.of(domain)
    expect(await moved.state()).toEqual({ state: 'running', reason: 'migrated' })
    expect(await moved.xml()).toContain(diskOf(there))
    const { type, stats } = await moved.jobStats({ completed: true })
    expect([type, typeof stats.downtime]).toEqual(['completed', 'bigint'])
  }
  await hosts[0]!.domains.of(domain).destroy()
})

/** Listens at one path, and joins each connection with one to the other path. */
async function join(listen: string, to: string): Promise<Disposable> {
  rmSync(listen, { force: true })
  const server = createServer({ allowHalfOpen: true }, (near) => {
    const far = connect({ path: to, allowHalfOpen: true })
    near.pipe(far).pipe(near)
    for (const socket of [near, far]) socket.on('error', () => socket.destroy())
  })
  await new Promise<void>((resolve) => server.listen(listen, resolve))
  return { [Symbol.dispose]: () => server.close() }
}

test('a machine moves by the five calls alone, stays paused on both sides until its caller decides, and may go back', async () => {
  const [here, there] = [daemons[0]!, daemons[1]!]
  makeDisk(here)
  const domain = await hosts[0]!.domains.createXml(xml(diskOf(here)))
  const flags = migrateFlag.live | migrateFlag.paused | migrateFlag.nonSharedDisk
  const routeAt = (daemon: PrivateLibvirtd) => ({
    flags,
    name: 'moving',
    memorySocket: `${room(daemon)}/ram`,
    disksSocket: `${room(daemon)}/nbd`,
  })
  using _memory = await join(`${room(here)}/ram`, `${room(there)}/ram`)
  using _disks = await join(`${room(here)}/nbd`, `${room(there)}/nbd`)
  const mine = hosts[0]!.domains.of(domain)
  const theirs = hosts[1]!.domains.of(domain)
  for (const goesBack of [true, false]) {
    makeDisk(there)
    const outgoing = await hosts[0]!.openOutgoing(domain, routeAt(here))
    const incoming = await hosts[1]!.openIncoming(routeAt(there))
    const begun = await outgoing.begin()
    const prepared = await incoming.prepare(begun.xml.replaceAll(diskOf(here), diskOf(there)), begun.cookie)
    const finished = await incoming.finish(await outgoing.perform(prepared))
    expect(await mine.state()).toEqual({ state: 'paused', reason: 'migration' })
    expect(await theirs.state()).toMatchObject({ state: 'paused' })
    if (goesBack) {
      await theirs.destroy()
      await outgoing.confirm(undefined, { cancelled: true })
      expect(await mine.state()).toEqual({ state: 'running', reason: 'migrationCanceled' })
    } else {
      await theirs.resume()
      await outgoing.confirm(finished)
      expect(await hosts[0]!.domains.lookup(uuid)).toBeUndefined()
      expect(await theirs.state()).toMatchObject({ state: 'running' })
    }
    outgoing.close()
    incoming.close()
  }
  await theirs.destroy()
})

test('a CPU is compared with what the host can give a guest', async () => {
  const cpu = (model: string, feature: string) =>
    `<cpu mode='custom' match='exact'><model fallback='forbid'>${model}</model>${feature}</cpu>`
  const kind = { arch: 'x86_64', virtType: 'qemu' }
  expect(await hosts[0]!.requireCpu(cpu('qemu64', ''), kind)).toMatch(/identical|superset/)
  const lacking = cpu('qemu64', "<feature policy='require' name='avx512f'/>")
  await expect(hosts[0]!.requireCpu(lacking, kind)).rejects.toMatchObject({ code: errorCode.cpuIncompatible })
})
