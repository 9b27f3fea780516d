/** Real QEMU, emulated, with a machine that has only its firmware: starting, saving, restoring, screens, disks. */
import { mkdirSync, readFileSync, truncateSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { migrateFlag, statsGroup } from '../constants.ts'
import type { Domain } from '../domain.ts'
import { LibvirtHost } from '../host.ts'
import type { HostEvent } from '../host-event.ts'
import { until } from '../testing/fake-daemon.ts'
import { PrivateLibvirtd } from '../testing/private-libvirtd.ts'

const uuid = '00000000-0000-4000-8000-00000000beef'
const xml = `<domain type='qemu'><name>firmware</name><uuid>${uuid}</uuid><memory unit='MiB'>32</memory><vcpu>1</vcpu>
  <os><type arch='x86_64'>hvm</type></os>
  <devices><emulator>/usr/bin/qemu-system-x86_64</emulator><memballoon model='none'/>
    <controller type='usb' model='none'/><controller type='virtio-serial' index='0'/>
    <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>
    <video><model type='vga'/></video>
  </devices></domain>`

let libvirtd: PrivateLibvirtd
let host: LibvirtHost
let domain: Domain
const heard: HostEvent[] = []

beforeAll(async () => {
  libvirtd = await PrivateLibvirtd.start()
  host = await LibvirtHost.open({ socketPath: libvirtd.socketPath })
  host.on('event', (event) => heard.push(event))
  domain = await host.domains.define(xml)
})

afterAll(async () => {
  host?.close()
  await libvirtd?.[Symbol.asyncDispose]()
})

function saw(event: string, detail: string): boolean {
  return heard.some((it) => it.type === 'lifecycle' && it.event === event && it.detail === detail)
}

describe('a machine', () => {
  test('starts paused, and runs', async () => {
    await domain.create({ paused: true })
    expect(await domain.state()).toMatchObject({ state: 'paused' })
    await domain.resume()
    expect(await domain.state()).toEqual({ state: 'running', reason: 'unpaused' })
  })

  test('carries metadata in its running and its stored form', async () => {
    await domain.setMetadata({ uri: 'urn:x', key: 'x', xml: '<a b="1"/>', live: true, config: true })
    expect(await domain.metadata('urn:x', { live: true })).toBe('<a b="1"/>')
    await domain.setMetadata({ uri: 'urn:x', key: 'x', xml: undefined, live: true, config: true })
    expect(await domain.metadata('urn:x')).toBeUndefined()
  })

  test('has figures that do not need its monitor', async () => {
    const groups = statsGroup.state | statsGroup.cpuTotal | statsGroup.vcpu
    const [first] = await host.domains.stats({ groups, domains: [domain] })
    expect(first?.stats['vcpu.0.time']).toBeTypeOf('bigint')
  })

  test('without an agent in it says so, at the price that was set', async () => {
    const agent = host.guestAgent(domain)
    await agent.setResponseTimeout(1)
    const mute = agent.command({ execute: 'guest-ping' })
    await expect(mute).rejects.toMatchObject({ name: 'GuestAgentError', reason: 'unresponsive' })
    expect(await domain.state()).toMatchObject({ state: 'running' })
  })

  test('is saved and restored paused, and a restored one is the same', async () => {
    const path = `${libvirtd.folder}/memory`
    await domain.save(path)
    expect(await domain.state()).toEqual({ state: 'shutoff', reason: 'saved' })
    expect(readFileSync(path).subarray(0, 16).toString()).toBe('LibvirtQemudSave')
    expect(await host.domains.saveImageXml(path)).toContain(uuid)
    await host.domains.restore(path, { paused: true })
    expect(await domain.state()).toMatchObject({ state: 'paused' })
    await domain.resume()
    await until(() => saw('stopped', 'saved') && saw('started', 'restored') && saw('resumed', 'unpaused'))
    expect(heard.some((it) => it.type === 'job-completed' && it.operation === 'save')).toBe(true)
    expect(await domain.jobInfo()).toMatchObject({ type: 'none' })
  })

  test('does not start from a truncated image, and the image is still there', async () => {
    const path = `${libvirtd.folder}/torn`
    await domain.save(path)
    truncateSync(path, 2_000)
    await expect(host.domains.restore(path)).rejects.toMatchObject({ name: 'LibvirtError' })
    expect(readFileSync(path).length).toBe(2_000)
    expect(await domain.state()).toMatchObject({ state: 'shutoff' })
  })

  test('an image format is refused before anything is sent if libvirt is too old', async () => {
    if ((await host.libraryVersion()) < 11_002_000) {
      await expect(domain.save('/nowhere', { imageFormat: 'zstd' })).rejects.toThrow(/needs libvirt 11.2/)
    }
  })

  test('cannot move to a host that is not there, and runs on', async () => {
    await domain.create()
    const move = domain.migrateTo('qemu+unix:///system?socket=/nowhere', { flags: migrateFlag.live })
    await expect(move).rejects.toMatchObject({ name: 'LibvirtError', procedure: 'domainMigratePerform3Params' })
    expect(await domain.state()).toMatchObject({ state: 'running' })
  })

  test('lives on while its daemon is killed, and is destroyed by the next one', async () => {
    const up = new Promise((resolve) => host.once('up', () => resolve(undefined)))
    libvirtd.signal('SIGKILL')
    await up
    expect(await domain.state()).toMatchObject({ state: 'running' })
    // A monitor call waits until the new daemon has taken the QEMU over; a destroy does not, and would race with that.
    await domain.suspend()
    await domain.destroy()
    await domain.undefine()
    expect(await host.domains.list()).toEqual([])
  })
})

test('a volume can be an overlay on another', async () => {
  const folder = `${libvirtd.folder}/pool`
  mkdirSync(folder)
  const pool = await host.storage.pools.define(
    `<pool type='dir'><name>p</name><target><path>${folder}</path></target></pool>`,
  )
  await pool.create()
  const xml = (name: string, format: string) =>
    `<name>${name}</name><capacity>8388608</capacity><target><format type='${format}'/></target>`
  await pool.volumes.create(`<volume>${xml('a', 'raw')}</volume>`)
  const backing = `<backingStore><path>${folder}/a</path><format type='raw'/></backingStore>`
  const overlay = await pool.volumes.create(`<volume>${xml('o.qcow2', 'qcow2')}${backing}</volume>`)
  expect(await overlay.xml()).toContain(`<path>${folder}/a</path>`)
  await overlay.delete()
  expect(await pool.volumes.lookup('o.qcow2')).toBeUndefined()
})
