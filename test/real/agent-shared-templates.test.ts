// Guarantee: real guests that map the memory of one template are desktops of their own, and change nothing of each other's. They
// sleep, move and end as any other; from their first sleep or move on nothing ties them to the template.
import { chmodSync, readdirSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { domainName } from '@dormouse/agent/driver/libvirt/domain-xml.ts'
import type { LibvirtDriver } from '@dormouse/agent/driver/libvirt/libvirt.ts'
import { type Bench, fenceOf, until } from '@dormouse/agent/testing/bench.ts'
import { newId, type WakePath } from '@dormouse/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { guestSpec, leaveWitness, lookAt, Stage } from './parts/agent-stage.ts'
import { TwoHosts } from './parts/two-hosts.ts'

const sleeps = 10
const templatesMiB = 4_000

let stage: Stage
let bench: Bench<LibvirtDriver>

beforeAll(async () => {
  stage = await Stage.start()
  const settings = { socketsDir: join(stage.libvirtd.shortDir, 'sockets'), shareTemplates: 'on' as const }
  const warm = { maxMiB: 2_000, maxAgeMs: 3_600_000 }
  bench = await stage.bench('shared', settings, undefined, undefined, warm, templatesMiB)
})
afterAll(async () => {
  await bench?.driver.close()
  await stage?.[Symbol.asyncDispose]()
})

const end = (id: string) => bench.destroyed(fenceOf(id, 9, 90))
const templatesDir = () => join(bench.folder, 'templates')

async function begin(path: WakePath, id = newId()): Promise<string> {
  const woken = await bench.awake(fenceOf(id, 1, 1), 'allow', 'make', guestSpec)
  expect(woken).toMatchObject({ resumedFrom: 'image', ready: true, path })
  return id
}

/** The template is there when this returns; its folder. */
async function ensureTemplate(): Promise<string> {
  if (bench.parts.templates.facts.length === 0) {
    await end(await begin('boot'))
    await bench.parts.templates.settled()
    expect(bench.parts.templates.facts).toHaveLength(1)
  }
  const [key] = readdirSync(templatesDir())
  return join(templatesDir(), key!)
}

/** A file of its QEMU's in /proc. */
function ofQemu(id: string, file: string): string {
  const name = domainName({ installationId: bench.installationId, desktopId: id })
  const root = `/proc/${stage.libvirtd.pid}/root`
  const pid = readFileSync(`${root}/run/libvirt/qemu/${name}.pid`, 'utf8').trim()
  return readFileSync(`${root}/proc/${pid}/${file}`, 'utf8')
}

const mapsTemplate = (id: string): boolean => /\/templates\/.*\/memory\b/.test(ofQemu(id, 'maps'))

/** What ending the process would free, and its share of what it has mapped. */
function memoryOf(id: string): { privateMiB: number; shareMiB: number } {
  const text = ofQemu(id, 'smaps_rollup')
  const mib = (field: string) => Math.round(Number(new RegExp(`^${field}:\\s+(\\d+)`, 'm').exec(text)?.[1]) / 1_024)
  return { privateMiB: mib('Private_Dirty') + mib('Private_Clean'), shareMiB: mib('Pss') }
}

const look = `head -c 1024 /dev/urandom | base64 | tr -d '\\n'; echo
cat /proc/sys/kernel/random/uuid
cut -d ' ' -f 2 /etc/ssh/ssh_host_ed25519_key.pub
hostname`

test('desktops that map one template’s memory share nothing that should be their own, and write to none but their own', async () => {
  const template = await ensureTemplate()
  const before = readFileSync(join(template, 'manifest.json'), 'utf8')
  const ids = [newId(), newId(), newId(), newId()]
  await Promise.all(ids.map((id) => begin('template', id)))
  const seen: string[][] = []
  const { qemu = '' } = (await bench.driver.facts()).versions
  const isReadOnly = Number.parseFloat(qemu) >= 8.2
  console.info(`QEMU ${qemu}, ${isReadOnly ? 'read-only' : 'writable'}`)
  expect(statSync(join(template, 'memory')).mode & 0o222).toBe(isReadOnly ? 0 : 0o220)
  for (const id of ids) {
    expect(mapsTemplate(id)).toBe(true)
    expect(ofQemu(id, 'cmdline').includes('readonly=on')).toBe(isReadOnly)
    seen.push((await bench.run(id, look)).split('\n'))
    expect(await bench.clockError(id)).toBeLessThan(2)
  }
  for (const [n] of seen[0]!.entries()) expect(new Set(seen.map((each) => each[n])).size).toBe(ids.length)
  await Promise.all(ids.map(end))
  await bench.crash()
  // The agent has compared the files with their digests.
  expect(bench.parts.templates.facts).toHaveLength(1)
  expect(readFileSync(join(template, 'manifest.json'), 'utf8')).toBe(before)
})

test('the host holds once what they have not changed', async () => {
  await ensureTemplate()
  const mapped = await begin('template')
  const others = [await begin('template'), await begin('template'), await begin('template')]
  const shared = memoryOf(mapped)
  await Promise.all([mapped, ...others].map(end))
  await bench.parts.templates.removeWhile(async () => true)
  const booted = await begin('boot')
  const own = memoryOf(booted)
  await bench.parts.templates.settled()
  await end(booted)
  console.info(`MiB: booted ${JSON.stringify(own)}, one of four that map a template ${JSON.stringify(shared)}`)
  expect(shared.privateMiB).toBeLessThan(own.privateMiB / 2)
})

test('it sleeps warm and cold without the template, again and again, while others map it on', async () => {
  await ensureTemplate()
  const [id, other] = [await begin('template'), await begin('template')]
  const before = await leaveWitness(bench, id, 16)
  const beforeOther = await leaveWitness(bench, other, 16)
  const expectKept = async (desktopId: string, { bootId, memoryHash }: typeof before) =>
    expect(await lookAt(bench, desktopId)).toMatchObject({ bootId, memoryHash })
  await bench.hibernated(fenceOf(id, 1, 2))
  await bench.parts.templates.removeWhile(async () => true)
  expect(readdirSync(templatesDir())).toEqual([])
  expect(await bench.awake(fenceOf(id, 2, 3), 'require', 'require', guestSpec)).toMatchObject({ path: 'warm' })
  await expectKept(id, before)
  for (let n = 0; n < sleeps; n++) {
    await bench.hibernated(fenceOf(id, 2, 4 + 2 * n))
    await bench.parts.warm.dropAll()
    const woken = await bench.awake(fenceOf(id, 2, 5 + 2 * n), 'require', 'require', guestSpec)
    expect(woken).toMatchObject({ path: 'restore' })
    expect(mapsTemplate(id)).toBe(false)
    await expectKept(id, before)
  }
  expect(mapsTemplate(other)).toBe(true)
  await expectKept(other, beforeOther)
  await bench.hibernated(fenceOf(id, 2, 80))
  await bench.parts.warm.dropAll()
  await stage.checkDisk(bench, id)
  await Promise.all([id, other].map(end))
})

test('where QEMU cannot read the devices, the desktop boots from its image; in the end desktops copy the memory', async () => {
  const template = await ensureTemplate()
  const devices = join(template, 'devices')
  const whole = readFileSync(devices)
  chmodSync(devices, 0o600)
  truncateSync(devices, 100_000)
  const first = await begin('boot')
  writeFileSync(devices, whole)
  await end(await begin('template'))
  truncateSync(devices, 100_000)
  const ids = [first, await begin('boot'), await begin('boot')]
  await bench.parts.templates.settled()
  const copied = await begin('template')
  expect(mapsTemplate(copied)).toBe(false)
  await Promise.all([...ids, copied].map(end))
  await bench.parts.templates.removeWhile(async () => true)
  await bench.crash()
})

test('files that were damaged are noticed before they are used', async () => {
  const template = await ensureTemplate()
  chmodSync(join(template, 'domain.xml'), 0o600)
  writeFileSync(join(template, 'domain.xml'), '<domain/>')
  await bench.crash()
  expect(bench.parts.templates.facts).toEqual([])
  await end(await begin('boot'))
  await bench.parts.templates.settled()
})

test('it moves awake, and back asleep, and has memory of its own on both hosts', async () => {
  const hosts = await TwoHosts.start({ memoryMiB: 8, settings: { shareTemplates: 'on' }, templatesMiB })
  await using _closing = hosts
  const { home, away } = hosts
  await home.parts.templates.settled()
  await hosts.end()
  await hosts.boot(home, 8)
  expect(home.parts.journal.read(hosts.id)).toMatchObject({ wokeBy: 'template' })
  const live = hosts.move('live')
  expect(await live.check()).toBeNull()
  expect(live.traits).toMatchObject({ namedMemory: true })
  expect(await live.whole()).toBe('awake')
  await hosts.expectAt(away)
  await hosts.hibernate(away)
  expect(await hosts.move('cold', away, home).whole()).toBe('hibernated')
  await hosts.wake()
  await hosts.expectAt(home)
  await hosts.end()

  await hosts.boot(home, 8)
  expect(home.parts.journal.read(hosts.id)).toMatchObject({ wokeBy: 'template' })
  await hosts.hibernate(home)
  expect(await hosts.move('cold').whole()).toBe('hibernated')
  await hosts.wake(away)
  await hosts.expectAt(away)
  expect(await until(() => home.parts.templates.facts)).toHaveLength(1)
})
