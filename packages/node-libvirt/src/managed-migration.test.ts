/** Guarantee: each of the five calls carries what libvirt expects of its side, on a connection of the migration's own. */
import { afterEach, beforeEach, expect, test } from 'vitest'
import { migrateFlag } from './constants.ts'
import { LibvirtHost } from './host.ts'
import { FakeDaemon, Refusal, until } from './testing/fake-daemon.ts'

const uuid = '00000000-0000-4000-8000-000000000001'
const flags = migrateFlag.live | migrateFlag.paused
const route = { name: 'd', memorySocket: '/run/m/ram', disksSocket: '/run/m/nbd' }
const cookie = (text: string) => Buffer.from(text)

let daemon: FakeDaemon
let host: LibvirtHost

beforeEach(async () => {
  daemon = await FakeDaemon.start()
  host = await LibvirtHost.open({ socketPath: daemon.socketPath, uri: 'test:///default' })
})

afterEach(async () => {
  host.close()
  await daemon[Symbol.asyncDispose]()
})

type Seen = { name: string; params: Record<string, unknown>; flags: number; cookie?: string; cancelled?: number }

/** Keeps what each call carries, and answers. */
function listen(): Seen[] {
  const seen: Seen[] = []
  const note = (name: string, args: { params: { name: string; value: { value: unknown } }[]; flags: number }) => {
    const params = Object.fromEntries(args.params.map((param) => [param.name, param.value.value]))
    const { flags, cookie, cancelled } = args as typeof args & { cookie?: Uint8Array; cancelled?: number }
    seen.push({
      name,
      params,
      flags,
      ...(cookie && { cookie: Buffer.from(cookie).toString() }),
      ...(cancelled !== undefined && { cancelled }),
    })
  }
  const domain = { name: 'd', uuid, id: 3 }
  daemon.answer('domainMigrateBegin3Params', (args) => {
    note('begin', args)
    return { cookie: cookie('begun'), xml: '<domain/>' }
  })
  daemon.answer('domainMigratePrepare3Params', (args) => {
    note('prepare', args)
    return { cookie: cookie('prepared'), migrateUri: undefined }
  })
  daemon.answer('domainMigratePerform3Params', (args) => {
    note('perform', args)
    return { cookie: cookie('performed') }
  })
  daemon.answer('domainMigrateFinish3Params', (args) => {
    note('finish', args)
    if (args.cancelled) throw new Refusal(93, 'migration successfully aborted')
    return { domain, cookie: cookie('finished') }
  })
  daemon.answer('domainMigrateConfirm3Params', (args) => {
    note('confirm', args)
    return {}
  })
  return seen
}

test('each call carries its side’s sockets, its cookie and its flags', async () => {
  const seen = listen()
  const here = await host.openOutgoing({ uuid, name: 'd' }, { flags, ...route })
  const there = await host.openIncoming({ flags, ...route, memorySocket: '/run/n/ram', disksSocket: '/run/n/nbd' })
  const begun = await here.begin()
  const performed = await here.perform(await there.prepare('<domain>there</domain>', begun.cookie))
  await here.confirm(await there.finish(performed))
  const common = { destination_name: 'd' }
  const mine = { ...common, migrate_uri: 'unix:///run/m/ram', disks_uri: 'unix:///run/m/nbd' }
  const theirs = { ...common, migrate_uri: 'unix:///run/n/ram', disks_uri: 'unix:///run/n/nbd' }
  const [atSource, atTarget] = [flags | migrateFlag.changeProtection, flags]
  expect(seen).toEqual([
    { name: 'begin', params: mine, flags: atSource },
    {
      name: 'prepare',
      params: { ...theirs, destination_xml: '<domain>there</domain>' },
      flags: atTarget,
      cookie: 'begun',
    },
    { name: 'perform', params: mine, flags: atSource, cookie: 'prepared' },
    { name: 'finish', params: theirs, flags: atTarget, cookie: 'performed', cancelled: 0 },
    { name: 'confirm', params: mine, flags: atSource, cookie: 'finished', cancelled: 0 },
  ])
})

test('a side that goes back says so, and the destination’s error names that it was aborted', async () => {
  const seen = listen()
  const here = await host.openOutgoing({ uuid, name: 'd' }, { flags, ...route })
  const there = await host.openIncoming({ flags, ...route })
  await expect(there.cancel()).rejects.toMatchObject({ code: 93 })
  await here.confirm(undefined, { cancelled: true })
  expect(seen).toMatchObject([
    { name: 'finish', cancelled: 1, cookie: '' },
    { name: 'confirm', cancelled: 1, cookie: '' },
  ])
})

test('its connection is its own, and closes with it', async () => {
  listen()
  const before = daemon.open.length
  const here = await host.openOutgoing({ uuid, name: 'd' }, { flags, ...route })
  await here.begin()
  expect(daemon.open).toHaveLength(before + 1)
  here.close()
  await until(() => daemon.open.length === before)
  await expect(here.perform(new Uint8Array())).rejects.toMatchObject({ name: 'ConnectionLost', sent: false })
  expect(here.closed).toBe(true)
})

test('a CPU that the host lacks is refused with what is missing', async () => {
  const asked: unknown[] = []
  daemon.answer('connectCompareHypervisorCPU', (args) => {
    asked.push(args)
    if (args.cpu.includes('pcid')) throw new Refusal(91, 'the CPU is incompatible with host CPU: pcid')
    return { result: 2 }
  })
  const kind = { machine: 'pc-i440fx-7.2', virtType: 'qemu' }
  expect(await host.requireCpu('<cpu/>', kind)).toBe('superset')
  await expect(host.requireCpu('<cpu>pcid</cpu>', kind)).rejects.toMatchObject({ code: 91 })
  expect(asked[0]).toMatchObject({ ...kind, cpu: '<cpu/>', flags: 1 })
})
