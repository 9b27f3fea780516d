// Guarantee: a run has as many hosts as have desktops, or more, never fewer; and all hosts together offer what one would.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { capacityShare } from './capacity-share.ts'
import { countHosts, hostPlaces } from './host-places.ts'
import type { Instance } from './instance.ts'

/** An instance with a folder for each host, in which this many desktops have a disk. */
function instanceWith(...desktops: number[]): Instance {
  const dir = mkdtempSync(join(tmpdir(), 'dormouse-places-'))
  onTestFinished(() => rmSync(dir, { recursive: true }))
  const instance = { dir } as Instance
  for (const [at, place] of hostPlaces(instance, desktops.length).entries()) {
    const disks = join(place.dir, 'agent/disks')
    mkdirSync(join(disks, 'consoles'), { recursive: true })
    for (let n = 0; n < desktops[at]!; n++) writeFileSync(join(disks, `${n}.qcow2`), '')
  }
  return instance
}

test('without a number, a run has the hosts that have desktops, and at least one', () => {
  expect(countHosts(instanceWith(), undefined)).toBe(1)
  expect(countHosts(instanceWith(2, 0), undefined)).toBe(1)
  expect(countHosts(instanceWith(0, 1, 0), undefined)).toBe(2)
})

test('more hosts are welcome; fewer are refused if one that has desktops would be left out', () => {
  expect(countHosts(instanceWith(1), 3)).toBe(3)
  expect(countHosts(instanceWith(5, 0, 0), 1)).toBe(1)
  expect(() => countHosts(instanceWith(0, 0, 2), 2)).toThrow(/^host-3 has 2 desktops in .*; run npm start -- --hosts 3/)
})

test('the first host has the folder of an instance that had one host', () => {
  const instance = instanceWith()
  const [first, second] = hostPlaces(instance, 2)
  expect(first).toMatchObject({ dir: instance.dir, agent: 'agent', hostName: 'host-1' })
  expect(second).toMatchObject({ dir: join(instance.dir, 'host-2'), agent: 'agent 2', hostName: 'host-2' })
})

test('three hosts offer no more than one', () => {
  const [whole, third] = [capacityShare(1, tmpdir()), capacityShare(3, tmpdir())]
  for (const [name, value] of Object.entries(third)) {
    const most = name === 'DORMOUSE_AGENT_WORK_AT_ONCE' ? Math.max(3, Number(whole[name])) : Number(whole[name])
    expect(Number(value) * 3).toBeLessThanOrEqual(most)
  }
})
