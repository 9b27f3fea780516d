// Guarantee: each process that a guest's kernel kills for want of memory is counted, under its name; a full disk is told once, and
// a guest that writes nothing is not asked.
import { appendFile, mkdtempDisposable, truncate } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { newId } from '@dormouse/contract'
import { createLog } from '@dormouse/process'
import { expect, test } from 'vitest'
import type { GuestUsage } from '../driver/driver.ts'
import type { FileSystem } from '../driver/guest-transport.ts'
import { Consoles } from '../driver/libvirt/consoles.ts'
import { FullDisks } from './full-disks.ts'
import { killedIn } from './guest-troubles.ts'
import { Troubles } from './troubles.ts'

const id = newId()
const mib = 1024 * 1024

test('the kernel’s lines name the process, whatever it is called', () => {
  const text = `[   12.3] Out of memory: Killed process 123 (python3) total-vm:81920kB, anon-rss:60000kB, UID:0 pgtables:160kB
[   13.0] Memory cgroup out of memory: Killed process 7 (a (b) c) total-vm:1kB, anon-rss:0kB
[   13.1] Out of memory: Killed process 8 (old), total-vm:1kB
[   13.2] oom_reaper: reaped process 7 (python3), now anon-rss:0kB\n`
  expect(killedIn(text)).toEqual(['python3', 'a (b) c', 'old'])
})

test('a trouble is said for a minute; those that follow are added up, and said next', () => {
  const clock = { ms: 0 }
  const troubles = new Troubles(() => clock.ms)
  const said = () => troubles.current().map(({ process, kills }) => [process, kills])
  for (const process of ['one', 'two', 'three']) troubles.note(id, 'out_of_memory', { process })
  const [first] = troubles.current()
  expect([said(), first]).toMatchObject([[['one', 1]], { desktopId: id, kind: 'out_of_memory', where: null }])
  clock.ms = 60_000
  const [second] = troubles.current()
  expect([said(), second!.at > first!.at]).toEqual([[['three', 2]], true])
  troubles.note(id, 'disk_full', { where: 'host' })
  expect(troubles.current()).toHaveLength(2)
  clock.ms = 120_000
  expect(troubles.current()).toEqual([])
})

test('a console is read from where it was read before, in whole lines, also after it was emptied', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'dormouse-consoles-'))
  const consoles = new Consoles(folder.path)
  const path = await consoles.ready(id)
  const printed = async (text: string) => {
    await appendFile(path, text)
    return (await consoles.printed([id])).get(id)
  }
  const pieces = ['before\n', 'one\ntw', 'o\nthree\n', '', 'four']
  const read: unknown[] = []
  for (const piece of pieces) read.push(await printed(piece))
  expect(read).toEqual(['', 'one\n', 'two\nthree\n', '', ''])
  await truncate(path, 0)
  expect(await printed('five\n')).toBe('five\n')
  const long = await printed(`${'x'.repeat(100_000)}\nlast\n`)
  expect([long!.length < 70_000, long!.endsWith('\nlast\n')]).toEqual([true, true])
  await consoles.remove(id)
  expect((await consoles.printed([id])).get(id)).toBe('')
})

function disksBed() {
  const [clock, asked] = [{ ms: 0 }, { count: 0 }]
  const root: FileSystem = { path: '/', totalBytes: 1_000 * mib, freeBytes: 500 * mib }
  const told: unknown[] = []
  const frozen = { now: false }
  const disks = new FullDisks({
    driver: { frozen: () => frozen.now },
    guests: {
      fileSystems: async () => {
        asked.count++
        return [root]
      },
    },
    troubles: { note: (...given) => told.push(given) },
    log: createLog({ name: 'disks', level: 'silent' }),
    now: () => clock.ms,
  })
  /** Has written so much, half a minute later. */
  const write = async (writtenMiB: number, laterMs = 30_000) => {
    clock.ms += laterMs
    const usage: GuestUsage = { processorMs: 0, networkBytes: 0, writtenBytes: writtenMiB * mib }
    disks.used(new Map([[id, usage]]))
    await disks.look()
    return asked.count
  }
  return { root, told, frozen, asked, write }
}

test('a guest is asked for its disks when it has written enough, or long after it has written a little', async () => {
  const { write } = disksBed()
  // It is first seen; it rests; it writes, and has 500 MiB left; then half of that.
  const asked = [await write(5), await write(5), await write(7), await write(200), await write(257), await write(257)]
  expect(asked).toEqual([0, 0, 1, 1, 2, 2])
  expect([await write(257, 60_000), await write(258), await write(258, 60_000)]).toEqual([2, 3, 3])
})

test('a full disk is told once, and again when it has had space', async () => {
  const { root, told, frozen, write } = disksBed()
  const full = [id, 'disk_full', { where: 'guest', path: '/' }]
  await write(0)
  root.freeBytes = 10 * mib
  await write(400)
  expect(told).toEqual([full])
  root.freeBytes = 20 * mib
  await write(500, 60_000)
  root.freeBytes = 500 * mib
  await write(501, 60_000)
  root.freeBytes = 0
  frozen.now = true
  await write(900)
  expect(told).toEqual([full])
  frozen.now = false
  await write(900)
  expect(told).toEqual([full, full])
})
