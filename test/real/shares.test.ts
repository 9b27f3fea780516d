// Guarantee: libvirt says of a running guest what its tier says, however it came to run, and a change counts from its next wake on.
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { LibvirtDriver } from '@dormouse/agent/driver/libvirt/libvirt.ts'
import { type Bench, fenceOf } from '@dormouse/agent/testing/bench.ts'
import { newId, type Shares } from '@dormouse/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { run } from '../../scripts/testbed/processes.ts'
import { guestSpec, Stage } from './parts/agent-stage.ts'
import { enableCgroups, removeCgroups } from './parts/cgroups.ts'

const few: Shares = {
  cpu_weight: 50,
  disk_iops: 500,
  disk_mib_per_second: 8,
  network_mbit_per_second: null,
  packets_per_second: null,
  connections: null,
}
const more: Shares = { ...few, cpu_weight: 400, disk_iops: null, disk_mib_per_second: 64 }

let stage: Stage
let bench: Bench<LibvirtDriver>
let weighs: boolean
beforeAll(async () => {
  stage = await Stage.start()
  weighs = await enableCgroups(stage.libvirtd)
  bench = await stage.bench('shares', {}, undefined, undefined, { maxMiB: 2_000, maxAgeMs: 3_600_000 })
})
afterAll(async () => {
  await bench?.driver.close()
  await stage?.[Symbol.asyncDispose]()
  removeCgroups()
})

const virsh = (...words: string[]) =>
  run('virsh', ['-q', '-c', `qemu+unix:///system?socket=${stage.libvirtd.socketPath}`, ...words])

/** As libvirt reads it from the process and from the kernel. */
async function limitsOf(id: string): Promise<Record<string, number>> {
  const told = `${weighs ? await virsh('schedinfo', id) : ''}\n${await virsh('blkdeviotune', id, 'vda')}`
  const lines = told.matchAll(/^(\w+)\s*:\s*(\d+)$/gm)
  return Object.fromEntries([...lines].map(([, name, value]) => [name, Number(value)]))
}

const mib = 1024 * 1024
const asFew = {
  cpu_shares: 50,
  total_iops_sec: 500,
  total_iops_sec_max: 1_000,
  total_iops_sec_max_length: 10,
  total_bytes_sec: 8 * mib,
  total_bytes_sec_max: 16 * mib,
  total_bytes_sec_max_length: 10,
}
const asMore = { cpu_shares: 400, total_iops_sec: 0, total_iops_sec_max: 0, total_bytes_sec: 64 * mib }
const asNone = { total_iops_sec: 0, total_iops_sec_max: 0, total_bytes_sec: 0, total_bytes_sec_max: 0 }

/** Without control groups, libvirt weighs nothing. */
const unlessUnweighed = ({ cpu_shares, ...rest }: Record<string, number>) => (weighs ? { cpu_shares, ...rest } : rest)

const wake = (id: string, turn: number, shares?: Shares) =>
  bench.awake(fenceOf(id, turn, turn), 'allow', 'make', { ...guestSpec, ...(shares && { shares }) })
const savedMemory = (id: string) => {
  const folder = join(bench.memoryFolder, id)
  return join(folder, readdirSync(folder).find((name) => !name.endsWith('.json'))!)
}
const hibernate = (id: string, turn: number) =>
  bench.ask('desktop.ensureHibernated', { fence: fenceOf(id, turn, turn) })

test('a guest has its tier’s shares after a boot, a restore and the wake of a warm copy, and none without', async () => {
  const id = newId()
  await wake(id, 1, few)
  expect(await limitsOf(id)).toMatchObject(unlessUnweighed(asFew))
  await hibernate(id, 1)
  expect(await wake(id, 2, more)).toMatchObject({ path: 'warm' })
  expect(await limitsOf(id)).toMatchObject(unlessUnweighed(asMore))
  await hibernate(id, 2)
  await bench.parts.warm.dropAll()
  expect(await virsh('save-image-dumpxml', savedMemory(id))).not.toMatch(/<(cputune|iotune)>/)
  expect(await wake(id, 3, few)).toMatchObject({ path: 'restore' })
  expect(await limitsOf(id)).toMatchObject(unlessUnweighed(asFew))
  await hibernate(id, 3)
  expect(await wake(id, 4)).toMatchObject({ path: 'warm' })
  expect(await limitsOf(id)).toMatchObject(asNone)
  const { versions } = await bench.driver.facts()
  expect(versions.shares).toEqual(weighs ? undefined : expect.stringMatching(/^cpu not weighted \(/))
  await bench.destroyed(fenceOf(id, 9, 9))
})
