// Guarantee: real guests that begin with one template are desktops of their own: no two share random bytes, keys, ids or names. They
// sleep, wake and end as any other.
import { appendFileSync, chmodSync, cpSync, existsSync, readdirSync, writeFileSync } from 'node:fs'
import { freemem, totalmem } from 'node:os'
import { join } from 'node:path'
import type { LibvirtDriver } from '@dormouse/agent/driver/libvirt/libvirt.ts'
import { type Bench, fenceOf, until } from '@dormouse/agent/testing/bench.ts'
import { reached, wayNames } from '@dormouse/agent/testing/ways-in.ts'
import { type DesktopSpec, newId, type WakePath } from '@dormouse/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { readManifest } from '../../infra/guest-image/manifest.ts'
import { guestSpec, leaveWitness, lookAt, Stage } from './parts/agent-stage.ts'

const atOnce = 20

const mib = 1024 ** 2
/** The host's free memory, in place of the true figure. */
let availableMiB: number | undefined
let stage: Stage
let bench: Bench<LibvirtDriver>

beforeAll(async () => {
  stage = await Stage.start()
  const settings = { socketsDir: socketsDir() }
  const hostMemory = () => ({ totalMiB: totalmem() / mib, availableMiB: availableMiB ?? freemem() / mib })
  const warm = { maxMiB: 2_000, maxAgeMs: 3_600_000, hostMemory }
  bench = await stage.bench('templates', settings, undefined, undefined, warm, 4_000)
})
afterAll(async () => {
  await bench?.driver.close()
  await stage?.[Symbol.asyncDispose]()
})

const socketsDir = () => join(stage.libvirtd.shortDir, 'sockets')
const begin = (id: string, of: DesktopSpec = guestSpec) => bench.awake(fenceOf(id, 1, 1), 'allow', 'make', of)
const end = (id: string) => bench.destroyed(fenceOf(id, 9, 9))
const templatesDir = () => join(bench.folder, 'templates')
const templateDomains = async () => (await stage.domains(bench)).filter((name) => name.includes('-template-'))

async function expectPath(path: WakePath, id = newId(), of: DesktopSpec = guestSpec): Promise<string> {
  expect(await begin(id, of)).toMatchObject({ resumedFrom: 'image', ready: true, path })
  return id
}

/** The template is there when this returns. */
async function ensureTemplate(): Promise<void> {
  if (bench.parts.templates.facts.length > 0) return
  await end(await expectPath('boot'))
  await bench.parts.templates.settled()
  expect(bench.parts.templates.facts).toHaveLength(1)
}

/** Each line must be another one in each guest. */
const lookAtIdentity = `head -c 1024 /dev/urandom | base64 | tr -d '\\n'; echo
head -c 1024 /dev/random | base64 | tr -d '\\n'; echo
cat /proc/sys/kernel/random/uuid
mktemp -u
ssh-keygen -q -t ed25519 -N '' -f /tmp/new && cut -d ' ' -f 2 /tmp/new.pub
cut -d ' ' -f 2 /etc/ssh/ssh_host_ed25519_key.pub
ssh-keygen -y -f /etc/ssh/ssh_host_ed25519_key | cut -d ' ' -f 2
cat /etc/dormouse/authorized_keys
hostname; tail -n 1 /etc/hosts`

/** A template is made again; the work begins when that has come to the step. */
async function makeAgain(step: string, work: () => Promise<void>): Promise<void> {
  await ensureTemplate()
  await bench.parts.templates.removeWhile(async () => true)
  const begun = Promise.withResolvers<void>()
  bench.failpoints.set(step, async () => {
    bench.failpoints.set(step, undefined)
    begun.resolve(work())
  })
  await end(await expectPath('boot'))
  await begun.promise
  await bench.parts.templates.settled()
  await bench.parts.templates.check()
}

/** Less than a tenth of the host's memory is available while the work runs. */
async function whileScarce(work: () => Promise<unknown>): Promise<void> {
  availableMiB = 0
  await work().finally(() => {
    availableMiB = undefined
  })
}

test('a wake that needs the memory of a template’s guest ends it before its own guest starts', async () => {
  await makeAgain('template.after-boot', () =>
    whileScarce(async () => {
      expect(await templateDomains()).toHaveLength(1)
      const id = newId()
      await bench.ask('desktop.ensureDisk', { fence: fenceOf(id, 1, 1), spec: guestSpec, disk: 'make' })
      bench.failpoints.set('wake.before-mark', async () => {
        bench.failpoints.set('wake.before-mark', undefined)
        expect(await templateDomains()).toEqual([])
      })
      await expectPath('boot', id)
      await end(id)
    }),
  )
  expect(readdirSync(templatesDir())).toEqual([])
})

test('a template’s guest ends in the middle of its save where the memory becomes scarce', async () => {
  const memories = () => readdirSync(templatesDir()).map((key) => join(templatesDir(), key, 'memory'))
  await makeAgain('template.after-seal', async () => {
    await until(() => memories().some((file) => existsSync(file)))
    await whileScarce(() => bench.parts.templates.giveWay())
    expect(await templateDomains()).toEqual([])
  })
  expect(readdirSync(templatesDir())).toEqual([])
  await ensureTemplate()
})

test('desktops that begin with one template at once share nothing that should be their own', async () => {
  await ensureTemplate()
  expect(await templateDomains()).toEqual([])
  const ids = Array.from({ length: atOnce }, () => newId())
  await Promise.all(ids.map((id) => expectPath('template', id)))
  const seen: string[][] = []
  for (const id of ids) seen.push((await bench.run(id, lookAtIdentity)).split('\n'))
  const [lines] = seen as [string[]]
  expect(lines).toHaveLength(10)
  for (const [n] of lines.entries()) expect(new Set(seen.map((each) => each[n])).size).toBe(atOnce)
  for (const each of seen) expect(each[5]).toBe(each[6])
  for (const id of ids) expect(await bench.clockError(id)).toBeLessThan(2)
  const { kernel_version: kernel } = readManifest(stage.miniImage)
  for (const id of ids) expect(await bench.run(id, 'uname -r')).toBe(kernel)
  console.info(`kernel ${kernel}`)
  await Promise.all(ids.map(end))
})

test('it sleeps warm and cold with what it has, boots from its disk, and its disk is without a fault', async () => {
  await ensureTemplate()
  const id = await expectPath('template')
  const before = await leaveWitness(bench, id, 16)
  const name = await bench.run(id, 'hostname')
  const expectKept = async () => {
    const { bootId, memoryHash } = await lookAt(bench, id)
    expect({ bootId, memoryHash }).toEqual({ bootId: before.bootId, memoryHash: before.memoryHash })
  }
  await bench.hibernated(fenceOf(id, 1, 2))
  expect(await bench.awake(fenceOf(id, 2, 3), 'require', 'require', guestSpec)).toMatchObject({ path: 'warm' })
  await expectKept()
  await bench.hibernated(fenceOf(id, 2, 4))
  await bench.parts.warm.dropAll()
  expect(await bench.awake(fenceOf(id, 3, 5), 'require', 'require', guestSpec)).toMatchObject({ path: 'restore' })
  await expectKept()
  await bench.hibernated(fenceOf(id, 3, 6))
  expect(await bench.awake(fenceOf(id, 4, 7), 'discard', 'require', guestSpec)).toMatchObject({
    resumedFrom: 'disk',
    path: 'boot',
  })
  expect(await bench.run(id, 'cat /root/note; hostname')).toBe(`kept\n${name}`)
  await bench.hibernated(fenceOf(id, 4, 8))
  await bench.parts.warm.dropAll()
  await stage.checkDisk(bench, id)
  await end(id)
})

test.each([
  ['python3', 0],
  ['a-server', 1],
])('an image gets no template while it runs a program that was seeded: %s, %i', async (program, templates) => {
  const imagesDir = join(stage.libvirtd.shortDir, `images-${program}`)
  const folder = join(imagesDir, 'running')
  cpSync(stage.miniImage, folder, { recursive: true })
  // Only its name counts.
  const start = `cp /usr/sbin/qemu-ga /tmp/${program}; /tmp/${program} -m unix-listen -p /tmp/in -t /tmp >/dev/null 2>&1 &`
  const ready = { command: ['sh', '-c', start], try_timeout_secs: 20 }
  writeFileSync(join(folder, 'manifest.json'), JSON.stringify({ ...readManifest(folder), ready }))
  await using other = await stage.bench(
    program,
    { imagesDir, socketsDir: socketsDir() },
    undefined,
    undefined,
    undefined,
    4_000,
  )
  const id = newId()
  const of = { ...guestSpec, imageVersion: 'running' }
  expect(await other.awake(fenceOf(id, 1, 1), 'allow', 'make', of)).toMatchObject({ path: 'boot', ready: true })
  expect(await other.run(id, `pidof ${program}`)).toMatch(/^\d+$/)
  await other.parts.templates.settled()
  expect(other.parts.templates.facts).toHaveLength(templates)
  await other.destroyed(fenceOf(id, 1, 2))
})

test('a larger disk than the template’s is as large in its guest', async () => {
  await ensureTemplate()
  const id = await expectPath('template', newId(), { ...guestSpec, diskGiB: 3 })
  const mib = async () => Number(await bench.run(id, "df -m / | awk 'END { print $2 }'"))
  await until(async () => (await mib()) > 2_500, 60_000)
  expect(await bench.run(id, 'cat /sys/block/vda/size')).toBe(`${(3 * 1024 ** 3) / 512}`)
  await end(id)
})

test.each(['before-resume', 'after-resume', 'after-identity'])(
  'until a guest has an identity, nothing from outside reaches it: at %s',
  async (name) => {
    await ensureTemplate()
    const id = newId()
    let early: unknown
    bench.failpoints.set(`first-wake.${name}`, async () => {
      early = await reached(bench, id)
    })
    await expectPath('template', id).finally(() => bench.failpoints.set(`first-wake.${name}`, undefined))
    expect(early).toEqual({})
    expect(Object.keys(await reached(bench, id))).toEqual(wayNames)
    await end(id)
  },
)

test('a damaged template is noticed before it is used', async () => {
  await ensureTemplate()
  const [key] = readdirSync(templatesDir())
  const memory = join(templatesDir(), key!, 'memory')
  chmodSync(memory, 0o600)
  appendFileSync(memory, 'x')
  await bench.crash()
  expect(bench.parts.templates.facts).toEqual([])
  await end(await expectPath('boot'))
})
