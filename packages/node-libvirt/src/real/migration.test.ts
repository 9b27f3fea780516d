/** Two daemons, one machine that runs and has a disk: it moves to the other one and back, peer to peer. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { migrateFlag, xmlFlag } from '../constants.ts'
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
