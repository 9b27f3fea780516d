// Guarantee: a desktop goes where there is room, and a refusal names the limit that is in the way.
import { messageOf, Refusal } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { choose, insist } from './placement.ts'
import type { Candidate } from './store.ts'

const host = (given: Partial<Candidate> = {}): Candidate => ({
  id: 'h1',
  name: 'alpha',
  images: ['mini'],
  ailment: null,
  ailsLately: false,
  silent: false,
  vcpus: 4,
  memoryMiB: 4_096,
  diskGiB: 100,
  freeDiskGiB: 100,
  heldVcpus: 0,
  heldMemoryMiB: 0,
  heldDiskGiB: 0,
  ...given,
})
const wish = { desktopId: 'd', vcpus: 1, memoryMiB: 1_024, diskGiB: 10, image: 'mini' }

const refusalOf = (act: () => unknown): Refusal => {
  try {
    act()
  } catch (error) {
    if (error instanceof Refusal) return error
    throw error
  }
  throw new Error('nothing was refused')
}

test('the first host with room is taken, hosts that are full, ill, silent or without the image are passed over', () => {
  const full = host({ id: 'full', heldMemoryMiB: 4_000 })
  const ill = host({ id: 'ill', ailment: 'no QEMU' })
  const silent = host({ id: 'silent', silent: true })
  const bare = host({ id: 'bare', images: [] })
  expect(choose([full, ill, silent, bare, host({ id: 'good' })], wish).id).toBe('good')
})

test.each([
  ['no_host', [], 'no host is linked'],
  ['no_host', [host({ ailment: 'libvirt is not installed' })], 'libvirt is not installed'],
  ['host_unreachable', [host({ ailment: 'libvirt restarts', ailsLately: true })], 'libvirt restarts'],
  ['image_unavailable', [host({ images: ['desktop'] })], 'hosts have: desktop'],
  ['no_room', [host({ heldMemoryMiB: 3_500 })], 'alpha has 596 MiB of memory free, 1024 are needed'],
  ['no_room', [host({ freeDiskGiB: 0 })], 'alpha’s disk is full'],
  ['no_room', [host({ heldDiskGiB: 95 })], 'alpha has 5 GiB of disk free, 10 are needed'],
] as const)('refuses with %s and says why', (code, hosts, words) => {
  const refusal = refusalOf(() => choose([...hosts], wish))
  expect(refusal.code).toBe(code)
  expect(refusal.extra.cause).toContain(words)
  expect(refusal.detail).toBe(messageOf(code))
})

test('a desktop bound to its host by its disk needs no new disk there, and goes nowhere else', () => {
  expect(insist(host({ heldDiskGiB: 100, freeDiskGiB: 0 }), wish).id).toBe('h1')
  expect(refusalOf(() => insist(undefined, wish)).code).toBe('host_away')
  expect(refusalOf(() => insist(host({ ailment: 'no QEMU' }), wish)).code).toBe('host_away')
  expect(refusalOf(() => insist(host({ ailment: 'no QEMU', ailsLately: true }), wish)).code).toBe('host_unreachable')
  expect(refusalOf(() => insist(host({ heldMemoryMiB: 4_000 }), wish)).code).toBe('no_room')
})
