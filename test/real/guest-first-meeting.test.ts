// Guarantee: an image needs QEMU's guest agent and sshd, and nothing of ours. An image that lacks them is refused at its first
// wake, with what it lacks; a guest that reboots, or whose program is killed, is reached again.
import { cpSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { LibvirtDriver } from '@dormouse/agent/driver/libvirt/libvirt.ts'
import { type Bench, fenceOf } from '@dormouse/agent/testing/bench.ts'
import { newId } from '@dormouse/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { run } from '../../scripts/testbed/processes.ts'
import { waitFor } from '../wait-for.ts'
import { guestSpec, Stage } from './parts/agent-stage.ts'

let stage: Stage
let bench: Bench<LibvirtDriver>
let imagesDir: string
beforeAll(async () => {
  stage = await Stage.start()
  imagesDir = join(stage.libvirtd.shortDir, 'images')
  cpSync(stage.miniImage, join(imagesDir, 'mini'), { recursive: true })
  bench = await stage.bench('meeting', { imagesDir, socketsDir: join(stage.libvirtd.shortDir, 'meeting-sockets') })
})
afterAll(async () => {
  await bench?.driver.close()
  await stage?.[Symbol.asyncDispose]()
})

/** The mini image under another name, with this change of its disk. */
async function imageWith(name: string, change: string): Promise<void> {
  const folder = join(imagesDir, name)
  cpSync(stage.miniImage, folder, { recursive: true })
  const [disk, raw] = [join(folder, 'disk.qcow2'), join(folder, 'disk.raw')]
  await run('qemu-img', ['convert', '-O', 'raw', disk, raw])
  await run('debugfs', ['-w', '-R', change, raw])
  await run('qemu-img', ['convert', '-f', 'raw', '-O', 'qcow2', raw, disk])
  const manifest = join(folder, 'manifest.json')
  writeFileSync(manifest, JSON.stringify({ ...JSON.parse(readFileSync(manifest, 'utf8')), name }))
}

test('an image without sshd is refused at its first wake, by that', async () => {
  await imageWith('no-sshd', 'rm /usr/sbin/sshd')
  const fence = fenceOf(newId(), 1, 1)
  const waking = bench.awake(fence, 'allow', 'make', { ...guestSpec, imageVersion: 'no-sshd' })
  await expect(waking).rejects.toMatchObject({ code: 'image_unsuited', detail: 'the image has no sshd' })
})

test('a guest is reached again after it has rebooted, and after our program in it was killed', async () => {
  const id = newId()
  await bench.awake(fenceOf(id, 1, 1), 'allow', 'make', guestSpec)
  expect(await bench.run(id, 'ls /usr/lib/dormouse')).not.toContain('guest\n')
  const reached = (words: string) =>
    waitFor(async () => (await bench.run(id, `echo ${words}`).catch(() => '')).trim() === words, 60_000)
  await bench
    .run(id, 'killall -9 sshd; kill -9 $(ps | grep "[p]ort ssh" | while read pid rest; do echo $pid; done)')
    .catch(() => '')
  await reached('killed')
  const bootId = await bench.run(id, 'cat /proc/sys/kernel/random/boot_id')
  await bench.run(id, 'reboot -f').catch(() => '')
  await waitFor(async () => {
    const now = await bench.run(id, 'cat /proc/sys/kernel/random/boot_id').catch(() => bootId)
    return now !== bootId
  }, 60_000)
})

test('a guest whose program was removed gets it again', async () => {
  const id = newId()
  const fence = fenceOf(id, 1, 1)
  await bench.awake(fence, 'allow', 'make', guestSpec)
  await bench.run(id, 'rm /var/lib/dormouse/supervise-*')
  const exec = { id: newId() }
  const guest = bench.parts.guests.guest(id)
  await bench.parts.execs.start(guest, { ...exec, command: 'echo again', env: {} })
  const read = { ...exec, stream: 'stdout' as const, offset: 0, max_bytes: 100, wait_ms: 10_000 }
  const { data } = await bench.parts.execs.read(guest, id, read)
  expect(Buffer.from(data, 'base64').toString()).toBe('again\n')
})
