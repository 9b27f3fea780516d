// Guarantee: a guest that shares its clipboard sleeps and wakes as any other, though QEMU saves none that is sharing it.
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { LibvirtDriver } from '@dormouse/agent/driver/libvirt/libvirt.ts'
import { type Bench, fenceOf } from '@dormouse/agent/testing/bench.ts'
import { newId } from '@dormouse/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { guestSpec, Stage, smallMiB } from './parts/agent-stage.ts'

let stage: Stage
let bench: Bench<LibvirtDriver>
const id = newId()

beforeAll(async () => {
  stage = await Stage.start()
  const imagesDir = join(stage.libvirtd.shortDir, 'images')
  sharing(imagesDir)
  bench = await stage.bench('clipboard', { imagesDir }, join(stage.smallFolder, 'memory'))
  await bench.awake(fenceOf(id, 1, 1), 'allow', 'make', guestSpec)
})
afterAll(async () => {
  await bench?.destroyed(fenceOf(id, 9, 9))
  await bench?.driver.close()
  await stage?.[Symbol.asyncDispose]()
})

/** The mini image, saying of itself that it shares its clipboard: for the port, no program in the guest is needed. */
function sharing(imagesDir: string): void {
  const folder = join(imagesDir, 'mini')
  cpSync(stage.miniImage, folder, { recursive: true })
  const file = join(folder, 'manifest.json')
  writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, 'utf8')), clipboard: true }))
}

const ports = (): Promise<string> => bench.run(id, 'cat /sys/class/virtio-ports/*/name')

test('the port is there after a start, and again after a sleep', async () => {
  expect(await ports()).toContain('com.redhat.spice.0')
  await bench.hibernated(fenceOf(id, 1, 2))
  await bench.awake(fenceOf(id, 2, 3), 'require', 'require', guestSpec)
  await bench.tidy(fenceOf(id, 2, 3))
  expect(await ports()).toContain('com.redhat.spice.0')
})

test('a sleep that fails half-way leaves the guest awake, with its port', async () => {
  const filler = join(stage.smallFolder, 'filler')
  writeFileSync(filler, Buffer.alloc((smallMiB - 40) * 2 ** 20))
  // Believed to be small, it is begun, and meets the end of the disk half-way.
  await bench.house.journal.note(fenceOf(id, 2, 3), { spec: { ...guestSpec, memoryMiB: 16 } })
  await expect(bench.hibernated(fenceOf(id, 2, 4))).rejects.toMatchObject({ code: 'host_disk_full' })
  rmSync(filler)
  expect(await ports()).toContain('com.redhat.spice.0')
})
