// Guarantee: a desktop that begins with a template is a desktop like any other, with an identity of its own. Whatever fails or dies
// on the way, and at which step, nobody reaches a guest without one, and the desktop begins again as if it had never been woken.
import { mkdtempDisposable, readdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { newId } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { SimulatedDriver } from '../driver/simulated/simulated.ts'
import { Bench, fenceOf, spec, until } from '../testing/bench.ts'
import { TestMove } from '../testing/move.ts'
import { expectNoTemplate, foldersOf, made, path } from '../testing/template-making.ts'

const start = () => Bench.start({ templatesMiB: 1_000 })
const memoryOf = (bench: Bench, id: string) => readdir(join(bench.memoryFolder, id)).catch(() => [])

async function identity(bench: Bench, id: string) {
  const [machineId, hostName, hosts] = await Promise.all([
    bench.run(id, 'cat /etc/machine-id'),
    bench.run(id, 'cat /etc/hostname'),
    bench.run(id, 'cat /etc/hosts'),
  ])
  return { machineId, hostName, hosts }
}

test('after the first boot of an image desktops begin with its template, each with an identity of its own', async () => {
  await using bench = await start()
  await made(bench)
  expect(bench.parts.templates.facts).toEqual([{ image: 'mini', memoryMiB: 16, vcpus: 1, mib: 1 }])
  const ids = [newId(), newId(), newId()]
  for (const id of ids) {
    const woken = await bench.awake(fenceOf(id, 1, 1))
    expect(woken).toMatchObject({ resumedFrom: 'image', ready: true, path: 'template' })
    await until(() => isFurnished(bench, id))
    expect(await memoryOf(bench, id)).toEqual([])
  }
  const found = await Promise.all(ids.map((id) => identity(bench, id)))
  for (const [n, { machineId, hostName, hosts }] of found.entries()) {
    expect(machineId).toMatch(/^[\da-f]{32}$/)
    expect(hostName).toBe(`mini-${ids[n]!.slice(-12)}`)
    expect(hosts).toBe(`127.0.0.1 localhost ${hostName}`)
  }
  expect(new Set(found.map(({ machineId }) => machineId)).size).toBe(ids.length)
})

test('a desktop that began with a template sleeps, wakes, boots again and ends as any other', async () => {
  await using bench = await start()
  await made(bench)
  const id = newId()
  await bench.awake(fenceOf(id, 1, 1))
  await bench.run(id, 'echo kept > /root/kept')
  await bench.hibernated(fenceOf(id, 1, 2))
  await bench.parts.templates.removeWhile(async () => true)
  expect(await bench.awake(fenceOf(id, 2, 3), 'require', 'require')).toMatchObject({ path: 'restore' })
  await bench.hibernated(fenceOf(id, 2, 4))
  expect(await bench.awake(fenceOf(id, 3, 5), 'discard', 'require')).toMatchObject({
    resumedFrom: 'disk',
    path: 'boot',
  })
  expect(await bench.run(id, 'cat /root/kept')).toBe('kept')
  await bench.destroyed(fenceOf(id, 3, 6))
  expect(await bench.driver.disks()).not.toContain(id)
})

test('a desktop that begins with a template has its shares, also of the network port that it gets later', async () => {
  await using bench = await start()
  await made(bench)
  const [id, plugged] = [newId(), Promise.withResolvers<void>()]
  const shares = { cpu_weight: 7, disk_iops: 8, disk_mib_per_second: null, network_mbit_per_second: 9 }
  const shared = { ...spec, shares: { ...shares, packets_per_second: null, connections: null } }
  bench.failpoints.set('furnish.before-plug', async () => {
    expect(bench.driver.sharesOf(id)).toEqual(shared.shares)
    // What a port did not have when they were set first.
    await bench.driver.setShares(id, undefined)
    plugged.resolve()
  })
  expect(await bench.awake(fenceOf(id, 1, 1), 'allow', 'make', shared)).toMatchObject({ path: 'template' })
  await plugged.promise
  await until(() => isFurnished(bench, id))
  expect(bench.driver.sharesOf(id)).toEqual(shared.shares)
})

test.each(['template.after-boot', 'template.after-seal', 'template.after-save', 'template.before-rename'])(
  'an agent that dies at %s leaves no template, and the next boot makes one',
  async (name) => {
    await using bench = await start()
    await bench.crashAt(name, async () => {
      await path(bench)
      await bench.parts.templates.settled()
    })
    await expectNoTemplate(bench)
    await made(bench)
    expect(await path(bench)).toBe('template')
  },
)

test('a guest of a template that cannot be ended holds up no template that is there, and is ended later', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'dormouse-agent-'))
  let faults: { fail?: string[] } = {}
  const makeDriver = () => new SimulatedDriver({ folder: join(folder.path, 'simulated'), faults })
  await using bench = await Bench.over({ folder: folder.path, makeDriver, templatesMiB: 1_000 })
  await made(bench)
  const other = { ...spec, memoryMiB: 32 }
  faults = { fail: ['endTemplate:hypervisor_failed:1000000'] }
  await bench.crashAt('template.after-boot', async () => {
    await path(bench, newId(), other)
    await bench.parts.templates.settled()
  })
  expect(bench.driver.templates.running()).toHaveLength(1)
  expect(await path(bench)).toBe('template')
  bench.driver.faults.failNext('endTemplate', 0)
  await bench.parts.templates.check()
  expect([bench.driver.templates.running(), (await foldersOf(bench)).length]).toEqual([[], 1])
})

test('an agent that dies when a template is made has it when it starts again', async () => {
  await using bench = await start()
  await bench.crashAt('template.after-rename', async () => {
    await path(bench)
    await bench.parts.templates.settled()
  })
  expect(await path(bench)).toBe('template')
})

const steps = ['before-copy', 'after-copy', 'before-resume', 'after-resume', 'after-identity']

test.each(steps)('a first wake cut off at %s begins again, and nobody has reached its guest', async (name) => {
  await using bench = await start()
  await made(bench)
  const id = newId()
  await bench.crashAt(`first-wake.${name}`, () => path(bench, id))
  await bench.parts.watch.checkAll()
  expect(bench.parts.watch.running().map(({ desktopId }) => desktopId)).not.toContain(id)
  await expect(bench.run(id, 'true')).rejects.toMatchObject({ code: 'not_awake' })
  expect(await path(bench, id)).toBe('template')
  expect((await identity(bench, id)).machineId).toMatch(/^[\da-f]{32}$/)
  await until(() => isFurnished(bench, id))
  expect(await memoryOf(bench, id)).toEqual([])
})

test.each(steps)('a first wake cut off at %s boots where the template is gone', async (name) => {
  await using bench = await start()
  await made(bench)
  const id = newId()
  await bench.crashAt(`first-wake.${name}`, () => path(bench, id))
  await bench.parts.templates.removeWhile(async () => true)
  expect(await path(bench, id)).toBe('boot')
  await expect(bench.run(id, 'cat /etc/machine-id /var/log/boot')).resolves.toBe('')
})

test.each(steps)('a first wake that is undone after %s leaves a desktop that was never woken', async (name) => {
  await using bench = await start()
  await made(bench)
  const id = newId()
  await bench.crashAt(`first-wake.${name}`, () => path(bench, id))
  expect(await bench.asleep(fenceOf(id, 1, 1))).toMatchObject({ state: 'stopped', memoryLost: false })
  expect(await bench.driver.domain(id)).toBeUndefined()
  expect(await memoryOf(bench, id)).toEqual([])
  expect(await bench.awake(fenceOf(id, 2, 2), 'allow', 'require')).toMatchObject({
    resumedFrom: 'image',
    path: 'template',
  })
})

test.each(steps)('a destroy after %s leaves nothing', async (name) => {
  await using bench = await start()
  await made(bench)
  const id = newId()
  await bench.crashAt(`first-wake.${name}`, () => path(bench, id))
  await bench.destroyed(fenceOf(id, 1, 2))
  expect(await bench.driver.domain(id)).toBeUndefined()
  expect(await bench.driver.disks()).not.toContain(id)
  expect(await memoryOf(bench, id)).toEqual([])
})

test.each(steps)('a desktop that moves after a first wake cut off at %s was never woken', async (name) => {
  await using bench = await start()
  await using other = await Bench.start({ installationId: bench.installationId })
  await made(bench)
  const id = newId()
  await bench.crashAt(`first-wake.${name}`, () => path(bench, id))
  const move = new TestMove({ from: bench, to: other, desktopId: id, kind: 'cold', generation: 1, turn: 2 })
  expect(await move.whole()).toBe('stopped')
  await other.awake(fenceOf(id, 2, 4), 'allow', 'require')
  await expect(other.run(id, 'cat /etc/machine-id /var/log/boot')).resolves.toBe('')
})

test('a first wake cut off when it was done goes on', async () => {
  await using bench = await start()
  await made(bench)
  const id = newId()
  await bench.crashAt('first-wake.after-done', () => path(bench, id))
  expect(await bench.awake(fenceOf(id, 1, 1))).toMatchObject({ resumedFrom: 'image', ready: true, path: 'template' })
})

test.each(['copyTemplate', 'restorePaused', 'resume', 'tell'] as const)(
  'where %s fails, the desktop boots from its image',
  async (operation) => {
    await using bench = await start()
    await made(bench)
    bench.driver.faults.failNext(operation)
    const id = newId()
    expect(await bench.awake(fenceOf(id, 1, 1))).toMatchObject({ resumedFrom: 'image', ready: true, path: 'boot' })
    await expect(bench.run(id, 'cat /etc/machine-id')).resolves.toBe('')
    expect(await memoryOf(bench, id)).toEqual([])
    expect(await path(bench)).toBe('template')
  },
)

test('where one step of a first wake fails, the desktop boots only when no other step writes its disk', async () => {
  await using bench = await start()
  await made(bench)
  const { templates, faults } = bench.driver
  const release = faults.hang('copyTemplate')
  const copy = templates.copy.bind(templates)
  let isCopied = false
  templates.copy = async (...of) => {
    await copy(...of)
    isCopied = true
  }
  bench.parts.guests.introduce = () => Promise.reject(new Error('no keys could be made'))
  const waking = path(bench)
  // If nothing held it back, it would be awake by now.
  for (let n = 0; n < 200; n++) await foldersOf(bench)
  expect(faults.counts.startCold).toBe(1)
  release()
  expect(await waking).toBe('boot')
  expect(isCopied).toBe(true)
})

const isFurnished = (bench: Bench, id: string) => bench.parts.journal.read(id)?.furnished

test('a desktop that is awake gets its network soon after, however often that fails', async () => {
  await using bench = await start()
  await made(bench)
  bench.driver.faults.failNext('plug', 2)
  const id = newId()
  expect(await path(bench, id)).toBe('template')
  await until(async () => {
    await bench.parts.furnishing.check()
    return isFurnished(bench, id)
  })
})

test('a desktop that has a port counts as furnished only when its guest has its address', async () => {
  await using bench = await start()
  await made(bench)
  const id = newId()
  bench.failpoints.set('furnish.after-plug', () => bench.driver.faults.failNext('exec', 2, 'guest_unavailable'))
  await path(bench, id)
  await until(() => bench.failpoints.hits.includes('furnish.after-plug'))
  bench.failpoints.set('furnish.after-plug', undefined)
  await until(async () => {
    await bench.parts.furnishing.check()
    return isFurnished(bench, id)
  })
  expect(bench.driver.hasAddress(id)).toBe(true)
})

test.each(['first-wake.after-done', 'furnish.before-plug', 'furnish.after-plug', 'furnish.before-note'])(
  'an agent that dies at %s gives the desktop its network when it starts again',
  async (name) => {
    await using bench = await start()
    await made(bench)
    const id = newId()
    await bench.crashAt(name, async () => {
      await path(bench, id)
      await new Promise(() => undefined)
    })
    expect(isFurnished(bench, id)).toBe(false)
    await bench.parts.furnishing.check()
    await until(() => isFurnished(bench, id))
    expect(bench.driver.hasAddress(id)).toBe(true)
    expect(await memoryOf(bench, id)).toEqual([])
  },
)

test('a desktop that sleeps before it has a network gets it when it wakes', async () => {
  await using bench = await start()
  await made(bench)
  bench.driver.faults.failNext('plug')
  const id = newId()
  await path(bench, id)
  await bench.hibernated(fenceOf(id, 1, 2))
  expect(isFurnished(bench, id)).toBe(false)
  await bench.parts.furnishing.check()
  expect(isFurnished(bench, id)).toBe(false)
  await bench.awake(fenceOf(id, 2, 3), 'require', 'require')
  await until(() => isFurnished(bench, id))
})

test('a template whose copies fail three times in a row is removed, and is not made again', async () => {
  await using bench = await start()
  await made(bench)
  bench.driver.faults.failNext('restorePaused', 3)
  for (let n = 0; n < 4; n++) expect(await path(bench)).toBe('boot')
  await bench.parts.templates.settled()
  await expectNoTemplate(bench)
})

test.each(['bootTemplate', 'saveTemplate'] as const)('where %s fails there is no template', async (operation) => {
  await using bench = await start()
  bench.driver.faults.failNext(operation)
  expect(await path(bench)).toBe('boot')
  await bench.parts.templates.settled()
  await expectNoTemplate(bench)
  expect(await path(bench)).toBe('boot')
})

test('what could not be ended when a template failed is ended a minute later, and templates are made again', async () => {
  await using bench = await start()
  bench.driver.faults.failNext('saveTemplate')
  // By its folder, and by its name.
  bench.driver.faults.failNext('endTemplate', 2)
  expect(await path(bench)).toBe('boot')
  await bench.parts.templates.settled()
  expect(bench.driver.templates.running()).toHaveLength(1)
  await bench.parts.templates.check()
  await expectNoTemplate(bench)
  await made(bench, { ...spec, memoryMiB: 32 })
})

test('without space for templates none is made, and none is used', async () => {
  await using bench = await Bench.start()
  expect(await path(bench)).toBe('boot')
  await bench.parts.templates.settled()
  await expectNoTemplate(bench)
  expect(await path(bench)).toBe('boot')
})

test('each size of memory has a template; a smaller disk boots, and gets one', async () => {
  await using bench = await start()
  await made(bench, { ...spec, diskGiB: 2 })
  expect(await path(bench, newId(), { ...spec, diskGiB: 4 })).toBe('template')
  expect(await path(bench, newId(), { ...spec, memoryMiB: 32 })).toBe('boot')
  await bench.parts.templates.settled()
  expect(bench.parts.templates.facts).toHaveLength(2)
  expect(await path(bench)).toBe('boot')
  await bench.parts.templates.settled()
  expect(await path(bench)).toBe('template')
  expect(bench.parts.templates.facts).toHaveLength(2)
})

test('a template of another version of the hypervisor is not used, and is removed when there is a new one', async () => {
  await using bench = await start()
  await made(bench)
  const { templates } = bench.driver
  const traits = templates.traits.bind(templates)
  templates.traits = async (id, of) => ({ ...(await traits(id, of))!, emulator: '2' })
  expect(await path(bench)).toBe('boot')
  await bench.parts.templates.settled()
  expect(await foldersOf(bench)).toHaveLength(1)
  expect(await path(bench)).toBe('template')
})

test('a template goes with its image', async () => {
  await using bench = await start()
  await made(bench)
  bench.driver.templates.hasImage = async () => false
  await bench.parts.templates.check()
  await expectNoTemplate(bench)
})
