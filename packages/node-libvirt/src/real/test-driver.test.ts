/** A real libvirtd with its test driver, which keeps domains, pools and networks in memory. */
import { once } from 'node:events'
import { connect } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { isLibvirtError } from '../errors.ts'
import { encodeFrame, type Frame, FrameSplitter, messageType } from '../frames.ts'
import { LibvirtHost } from '../host.ts'
import type { HostEvent } from '../host-event.ts'
import { programs } from '../protocol.ts'
import { until } from '../testing/fake-daemon.ts'
import { PrivateLibvirtd } from '../testing/private-libvirtd.ts'
import { record } from '../xdr.ts'

const uuid = '6695eb01-f6a4-8304-79aa-97f2502e193f'
let libvirtd: PrivateLibvirtd
let host: LibvirtHost
let heard: HostEvent[]

beforeAll(async () => {
  libvirtd = await PrivateLibvirtd.start()
  host = await LibvirtHost.open({ socketPath: libvirtd.socketPath, uri: 'test:///default' })
  heard = []
  host.on('event', (event) => heard.push(event))
})

afterAll(async () => {
  host?.close()
  await libvirtd?.[Symbol.asyncDispose]()
})

function saw(event: string, detail: string): boolean {
  return heard.some((it) => it.type === 'lifecycle' && it.event === event && it.detail === detail)
}

describe('the node', () => {
  test('says what it is', async () => {
    expect(await host.libraryVersion()).toBeGreaterThan(7_000_000)
    expect(await host.nodeInfo()).toMatchObject({ model: 'i686', memoryKiB: 3_145_728, cpus: 16, mhz: 1400, nodes: 2 })
    expect(await host.capabilities()).toContain('<capabilities>')
  })

  test('answers a keepalive that was never negotiated', async () => {
    const answers: Frame[] = []
    const splitter = new FrameSplitter((frame) => answers.push(frame))
    const socket = connect(libvirtd.socketPath).on('data', (chunk) => splitter.push(chunk))
    const ping = { program: programs.keepalive, procedure: 1, type: messageType.message, serial: 0, status: 0 }
    socket.write(encodeFrame(ping, record({}), {}))
    await until(() => answers.length > 0, 'a pong')
    socket.destroy()
    expect(answers[0]).toMatchObject({ program: programs.keepalive, procedure: 2 })
  })

  test('refuses as unsupported what a driver does not have', async () => {
    const failed = await host
      .guestAgent(host.domains.of({ uuid, name: 'test' }))
      .command({ execute: 'x' })
      .catch((it) => it)
    expect(isLibvirtError(failed)).toBe(true)
  })
})

describe('a domain', () => {
  test('is listed and found, or honestly not', async () => {
    expect((await host.domains.list()).map(({ name }) => name)).toEqual(['test'])
    expect((await host.domains.lookup(uuid))?.name).toBe('test')
    expect((await host.domains.lookupByName('test'))?.uuid).toBe(uuid)
    expect(await host.domains.lookup('00000000-0000-4000-8000-000000000000')).toBeUndefined()
    expect(await host.domains.lookupByName('nobody')).toBeUndefined()
  })

  test('is suspended and resumed, destroyed and started, and each is an event', async () => {
    const domain = host.domains.of({ uuid, name: 'test' })
    await domain.suspend()
    expect(await domain.state()).toEqual({ state: 'paused', reason: 'user' })
    await domain.resume()
    expect(await domain.state()).toEqual({ state: 'running', reason: 'unpaused' })
    await domain.destroy()
    expect(await domain.state()).toEqual({ state: 'shutoff', reason: 'destroyed' })
    await domain.create()
    await until(() => saw('started', 'booted'))
    expect(saw('suspended', 'paused') && saw('resumed', 'unpaused') && saw('stopped', 'destroyed')).toBe(true)
  })

  test('ends in the state last asked for, however fast suspend and resume are asked', async () => {
    const domain = host.domains.of({ uuid, name: 'test' })
    for (let round = 0; round < 100; round++) {
      const asked = [domain.suspend(), domain.resume(), domain.suspend(), domain.resume()]
      await Promise.all(asked)
      expect((await domain.state()).state).toBe('running')
    }
  })

  test('is defined with metadata, and gone after undefine', async () => {
    const xml = `<domain type='test'><name>second</name><memory>1024</memory><os><type>hvm</type></os></domain>`
    const domain = await host.domains.define(xml)
    expect(await domain.metadata('urn:test')).toBeUndefined()
    await domain.setMetadata({ uri: 'urn:test', key: 't', xml: '<mark turn="3"/>', config: true })
    expect(await domain.metadata('urn:test', { config: true })).toContain('turn="3"')
    expect(await domain.xml()).toContain('<name>second</name>')
    await domain.undefine()
    expect(await host.domains.lookup(domain.uuid)).toBeUndefined()
    await expect(domain.state()).rejects.toMatchObject({ code: 42 })
  })

  test('has figures', async () => {
    const [first] = await host.domains.stats({ groups: 1 })
    expect(first).toMatchObject({ domain: { uuid }, stats: { 'state.state': 1 } })
  })
})

describe('pools and networks', () => {
  test('are there, and hold what is made in them', async () => {
    const pool = await host.storage.pools.lookup('default-pool')
    expect((await pool?.info())?.state).toBe('running')
    const xml = '<volume><name>v1</name><capacity>1048576</capacity></volume>'
    const volume = await pool?.volumes.create(xml)
    expect(await volume?.xml()).toContain('<name>v1</name>')
    expect(await (await pool?.volumes.lookup('v1'))?.xml()).toContain('1048576')
    await volume?.delete()
    expect(await pool?.volumes.lookup('v1')).toBeUndefined()
    expect(await host.storage.pools.lookup('nowhere')).toBeUndefined()
  })

  test('are started, stopped and forgotten', async () => {
    const network = await host.networks.define(
      `<network><name>n</name><bridge name='vbr9'/><ip address='10.9.0.1' netmask='255.255.255.0'><dhcp/></ip></network>`,
    )
    await network.create()
    expect(await network.bridgeName()).toBe('vbr9')
    const kept = { mac: '52:00:00:00:00:01', ip: '10.9.0.7' }
    await network.addDhcpHost(kept)
    expect(await network.xml()).toContain(`<host mac='${kept.mac}' ip='${kept.ip}'/>`)
    await network.removeDhcpHost(kept)
    expect(await network.xml()).not.toContain(kept.mac)
    expect(await host.networks.hasFilter('clean-traffic')).toBe(false)
    expect((await host.networks.list()).map(({ name }) => name).sort()).toEqual(['default', 'n'])
    await network.setAutostart(true)
    await network.destroy()
    await network.undefine()
    expect(await host.networks.lookup('n')).toBeUndefined()
  })
})

describe('the daemon', () => {
  test('serves many calls at once on every lane', async () => {
    const many = Array.from({ length: 500 }, () => host.domains.lookup(uuid))
    expect((await Promise.all(many)).every((it) => it?.name === 'test')).toBe(true)
  })

  test('killed with -9 comes back to a host that says so and goes on', async () => {
    const [down, up] = [once(host, 'down'), once(host, 'up')]
    libvirtd.signal('SIGKILL')
    await down
    await up
    await until(() => heard.some(({ type }) => type === 'gap'))
    expect((await host.domains.list()).map(({ name }) => name)).toEqual(['test'])
  })
})
