import { readdir, readFile, rm, truncate } from 'node:fs/promises'
import { join } from 'node:path'
import { newId } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { Bench, fenceOf, spec, until } from '../testing/bench.ts'

const bootIdFile = '/proc/sys/kernel/random/boot_id'

async function hibernatedDesktop(bench: Bench) {
  const id = newId()
  await bench.awake(fenceOf(id, 1, 1))
  await bench.run(id, 'echo in-memory > /run/note; echo on-disk > /root/note')
  const bootId = await bench.run(id, `cat ${bootIdFile}`)
  await bench.hibernated(fenceOf(id, 1, 2))
  return { id, bootId }
}

async function images(bench: Bench, id: string) {
  return (await readdir(join(bench.memoryFolder, id)).catch(() => [])).filter((name) => name.endsWith('.save'))
}

test('a first wake comes from the image, the next from memory, one after a power-off from the disk', async () => {
  await using bench = await Bench.start()
  const id = newId()
  expect(await bench.awake(fenceOf(id, 1, 1))).toMatchObject({ resumedFrom: 'image', ready: true, path: 'boot' })
  await bench.hibernated(fenceOf(id, 1, 2))
  expect(await bench.awake(fenceOf(id, 2, 3), 'require', 'require')).toMatchObject({
    resumedFrom: 'memory',
    ready: true,
    path: 'restore',
  })
  await bench.tidy(fenceOf(id, 2, 3))
  bench.driver.die(id, 'finished')
  expect(await bench.awake(fenceOf(id, 3, 4), 'allow', 'require')).toMatchObject({
    resumedFrom: 'disk',
    ready: true,
    path: 'boot',
  })
})

test('memory, disk, boot id and counter survive hibernation, and the clock is right', async () => {
  await using bench = await Bench.start()
  const { id, bootId } = await hibernatedDesktop(bench)
  await bench.awake(fenceOf(id, 2, 3), 'require', 'require')
  expect(await bench.run(id, `cat ${bootIdFile}`)).toBe(bootId)
  expect(await bench.run(id, 'cat /run/note /root/note')).toBe('in-memory\non-disk')
  expect(await bench.clockError(id)).toBeLessThan(1)
})

test('a truncated image fails the wake with a sentence and its remedy, and nothing is deleted', async () => {
  await using bench = await Bench.start()
  const { id } = await hibernatedDesktop(bench)
  const [image] = await images(bench, id)
  await truncate(join(bench.memoryFolder, id, image!), 200)
  await expect(bench.awake(fenceOf(id, 2, 3), 'require', 'require')).rejects.toMatchObject({
    code: 'memory_image_damaged',
    detail: expect.stringContaining('discard_memory'),
  })
  expect(await images(bench, id)).toEqual([image])
  expect(await bench.asleep(fenceOf(id, 2, 3))).toMatchObject({ state: 'hibernated', memoryLost: false })
  expect(await bench.awake(fenceOf(id, 3, 4), 'discard', 'require')).toMatchObject({
    resumedFrom: 'disk',
    ready: true,
    path: 'boot',
  })
  expect(await bench.run(id, 'cat /root/note')).toBe('on-disk')
})

test('an image whose content changed is refused by its digest, before a vCPU has run', async () => {
  await using bench = await Bench.start()
  const { id } = await hibernatedDesktop(bench)
  await bench.parts.digests.settled()
  const path = join(bench.memoryFolder, id, (await images(bench, id))[0]!)
  const { writeFile } = await import('node:fs/promises')
  await writeFile(path, (await readFile(path, 'latin1')).replace('in-memory', 'IN-MEMORY'), 'latin1')
  await expect(bench.awake(fenceOf(id, 2, 3), 'require', 'require')).rejects.toMatchObject({
    code: 'memory_image_damaged',
  })
  expect(await bench.observe(id)).toMatchObject({ domain: 'absent', memory: 'complete' })
})

test('memory is never given up unasked: what is missing, partial or used refuses a wake that needs it', async () => {
  await using bench = await Bench.start()
  const id = newId()
  await bench.awake(fenceOf(id, 1, 1))
  bench.driver.die(id)
  await expect(bench.awake(fenceOf(id, 2, 2), 'require', 'require')).rejects.toMatchObject({
    code: 'memory_image_missing',
  })
  await expect(bench.awake(fenceOf(newId(), 1, 1), 'allow', 'require')).rejects.toMatchObject({ code: 'disk_missing' })
})

test('a memory that was used says so itself: it is not restored again though the journal is lost', async () => {
  await using bench = await Bench.start()
  const { id } = await hibernatedDesktop(bench)
  await bench.awake(fenceOf(id, 2, 3), 'require', 'require')
  await rm(join(bench.folder, 'journal.log'))
  await bench.crash()
  bench.driver.die(id)
  expect(await images(bench, id)).toHaveLength(1)
  await expect(bench.awake(fenceOf(id, 3, 4), 'require', 'require')).rejects.toMatchObject({ code: 'memory_lost' })
})

test('a disk that is half made when the agent dies is made anew', async () => {
  await using bench = await Bench.start()
  const id = newId()
  bench.driver.faults.hang('fillDisk')
  void bench.awake(fenceOf(id, 1, 1))
  await until(() => bench.driver.faults.counts.fillDisk)
  await bench.crash()
  expect(await bench.observe(id)).toMatchObject({ domain: 'absent', disk: true })
  expect(await bench.awake(fenceOf(id, 1, 1))).toMatchObject({ resumedFrom: 'image', ready: true, path: 'boot' })
})

test('a spent image is never restored again: a guest that ran and died is memory lost, not an old memory', async () => {
  await using bench = await Bench.start()
  const { id } = await hibernatedDesktop(bench)
  await bench.awake(fenceOf(id, 2, 3), 'require', 'require')
  bench.driver.die(id)
  await expect(bench.awake(fenceOf(id, 2, 3), 'require', 'require')).rejects.toMatchObject({ code: 'memory_lost' })
  expect(await bench.asleep(fenceOf(id, 2, 3))).toMatchObject({ state: 'stopped', memoryLost: true })
})

test('a silent guest fails the wake by name, and one whose process dies is not waited for', async () => {
  await using bench = await Bench.start()
  const id = newId()
  bench.driver.faults.silentGuests.add(id)
  await expect(bench.awake(fenceOf(id, 1, 1, { deadlineMs: 300 }))).rejects.toMatchObject({ code: 'guest_silent' })
  expect(await bench.asleep(fenceOf(id, 1, 1))).toMatchObject({ state: 'stopped', memoryLost: false })
  const waking = bench.awake(fenceOf(id, 2, 2))
  await until(async () => (await bench.observe(id)).domain === 'running')
  bench.driver.die(id)
  await expect(waking).rejects.toMatchObject({ code: 'hypervisor_failed' })
})

test('an unknown image and a full disk are refused by name, and leave nothing', async () => {
  await using bench = await Bench.start()
  const id = newId()
  const source = { memory: 'allow', disk: 'make' } as const
  const strange = { ...spec, imageVersion: 'no-such-image' }
  await expect(
    bench.ask('desktop.ensureAwake', { fence: fenceOf(id, 1, 1), spec: strange, source }),
  ).rejects.toMatchObject({
    code: 'image_unavailable',
  })
  bench.driver.faults.diskFull = true
  await expect(bench.awake(fenceOf(id, 2, 2))).rejects.toMatchObject({ code: 'host_disk_full' })
  expect(await bench.asleep(fenceOf(id, 2, 2))).toMatchObject({ state: 'absent', memoryLost: false })
})

const before = ['wake.before-mark']
const after = ['wake.after-mark', 'wake.after-resume']

// Guarantee: wherever a wake fails or the agent dies, memory and disk are still there and belong together.
for (const how of ['fails', 'dies'] as const) {
  test.each([...before, ...after])(
    `a wake from memory whose agent ${how} at %s keeps the memory it had`,
    async (name) => {
      await using bench = await Bench.start()
      const { id, bootId } = await hibernatedDesktop(bench)
      const wake = () => bench.awake(fenceOf(id, 2, 3), 'require', 'require')
      if (how === 'fails') {
        bench.failpoints.set(name, 'throw')
        await expect(wake()).rejects.toThrow()
        bench.failpoints.set(name, undefined)
      } else await bench.crashAt(name, wake)
      const { memory } = await bench.observe(id)
      expect(memory).toBe(before.includes(name) ? 'complete' : 'spent')
      expect(await bench.asleep(fenceOf(id, 2, 3))).toMatchObject({ state: 'hibernated', memoryLost: false })
      expect(await images(bench, id)).toHaveLength(1)
      expect(await bench.awake(fenceOf(id, 3, 4), 'require', 'require')).toMatchObject({
        resumedFrom: 'memory',
        ready: true,
        path: 'restore',
      })
      expect(await bench.run(id, `cat ${bootIdFile}`)).toBe(bootId)
      expect(await bench.run(id, 'cat /run/note /root/note')).toBe('in-memory\non-disk')
    },
  )
}

test.each([...before, ...after])('a wake repeated after a crash at %s goes on to the same end', async (name) => {
  await using bench = await Bench.start()
  const { id, bootId } = await hibernatedDesktop(bench)
  await bench.crashAt(name, () => bench.awake(fenceOf(id, 2, 3), 'require', 'require'))
  expect(await bench.awake(fenceOf(id, 2, 3), 'require', 'require')).toMatchObject({
    resumedFrom: 'memory',
    ready: true,
    path: 'restore',
  })
  expect(await bench.run(id, `cat ${bootIdFile}`)).toBe(bootId)
})

test.each(['wake.before-mark', 'wake.after-mark', 'wake.after-resume', 'disk.after-make'])(
  'a first wake repeated after a failure at %s still says that it came from the image',
  async (name) => {
    await using bench = await Bench.start()
    const id = newId()
    bench.failpoints.set(name, 'throw@1')
    await expect(bench.awake(fenceOf(id, 1, 1))).rejects.toThrow()
    expect(await bench.awake(fenceOf(id, 1, 1))).toMatchObject({ resumedFrom: 'image', ready: true, path: 'boot' })
  },
)

test('the turn and the mark of a wake are on the disk by one sync, before its guest goes on', async () => {
  await using bench = await Bench.start()
  const { id } = await hibernatedDesktop(bench)
  const from = bench.failpoints.hits.length
  await bench.awake(fenceOf(id, 2, 3), 'require', 'require')
  const order = bench.failpoints.hits.slice(from).filter((name) => /wake|sync/.test(name))
  expect(order).toEqual(['wake.before-mark', 'journal.before-sync', 'wake.after-mark', 'wake.after-resume'])
})

test('a wake that finds its guest running is acknowledged only when its turn is on the disk', async () => {
  await using bench = await Bench.start()
  const id = newId()
  await bench.awake(fenceOf(id, 1, 1))
  const from = bench.failpoints.hits.length
  await bench.awake(fenceOf(id, 2, 2))
  expect(bench.failpoints.hits.slice(from).filter((name) => name === 'journal.before-sync')).toHaveLength(1)
})

test('repeated wakes join the one under way, and afterwards answer the same', async () => {
  await using bench = await Bench.start()
  const id = newId()
  bench.driver.faults.latencyMs.startCold = 50
  const answers = await Promise.all([1, 2, 3].map(() => bench.awake(fenceOf(id, 1, 1))))
  expect(answers).toMatchObject(Array(3).fill({ resumedFrom: 'image', ready: true, path: 'boot' }))
  expect(await bench.awake(fenceOf(id, 1, 1))).toMatchObject({ resumedFrom: 'image', ready: true, path: 'boot' })
})

test('a desktop left running by an earlier command is adopted, not restarted', async () => {
  await using bench = await Bench.start()
  const id = newId()
  await bench.awake(fenceOf(id, 1, 1))
  const bootId = await bench.run(id, `cat ${bootIdFile}`)
  expect(await bench.awake(fenceOf(id, 2, 5), 'require', 'require')).toMatchObject({
    resumedFrom: 'memory',
    ready: true,
  })
  expect(await bench.run(id, `cat ${bootIdFile}`)).toBe(bootId)
  expect((await bench.driver.domain(id))?.mark).toMatchObject({ generation: 2, turn: 5 })
})

test('a woken guest is told the time on its wake port; one without a port, or that does not answer there, by its agent', async () => {
  await using bench = await Bench.start()
  const { id } = await hibernatedDesktop(bench)
  const { faults } = bench.driver
  const wokenBy = async (generation: number, turn: number) => {
    const before = { ...faults.counts }
    await bench.awake(fenceOf(id, generation, turn), 'require', 'require')
    expect(await bench.clockError(id)).toBeLessThan(1)
    await bench.hibernated(fenceOf(id, generation, turn + 1))
    const since = (name: 'tell' | 'setTime') => (faults.counts[name] ?? 0) - (before[name] ?? 0)
    return { tell: since('tell'), setTime: since('setTime') }
  }
  expect(await wokenBy(2, 3)).toEqual({ tell: 1, setTime: 0 })
  faults.failNext('tell', 1, 'guest_unavailable')
  expect(await wokenBy(3, 5)).toEqual({ tell: 1, setTime: 1 })
})
