// Guarantee: a desktop goes to a host with enough capacity, and a refusal names the limit that prevents it.
import { messageOf, Refusal } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { chooseHost, requireHost } from './placement.ts'
import type { Candidate } from './store.ts'

const host = (given: Partial<Candidate> = {}): Candidate => ({
  id: 'h1',
  name: 'alpha',
  images: ['mini'],
  digests: [],
  ailment: null,
  ailsLately: false,
  silent: false,
  cordoned: false,
  quarantined: false,
  letsIn: false,
  vcpus: 4,
  memoryMiB: 4_096,
  diskGiB: 100,
  freeDiskGiB: 100,
  heldVcpus: 0,
  heldMemoryMiB: 0,
  heldDiskGiB: 0,
  ...given,
})
const request = { desktopId: 'd', vcpus: 1, memoryMiB: 1_024, diskGiB: 10, image: 'mini' }

const refusalOf = (act: () => unknown): Refusal => {
  try {
    act()
  } catch (error) {
    if (error instanceof Refusal) return error
    throw error
  }
  throw new Error('nothing was refused')
}

test('the first host with room is taken; full, unhealthy, silent and cordoned hosts and those without the image are skipped', () => {
  const full = host({ id: 'full', heldMemoryMiB: 4_000 })
  const ill = host({ id: 'ill', ailment: 'no QEMU' })
  const silent = host({ id: 'silent', silent: true })
  const cordoned = host({ id: 'cordoned', cordoned: true })
  const bare = host({ id: 'bare', images: [] })
  expect(chooseHost([full, ill, silent, cordoned, bare, host({ id: 'good' })], request).id).toBe('good')
})

test.each([
  ['no_host', [], 'no host is linked'],
  ['no_host', [host({ ailment: 'libvirt is not installed' })], 'libvirt is not installed'],
  [
    'no_host',
    [host({ cordoned: true }), host({ name: 'beta', silent: true })],
    'alpha is cordoned; beta is unreachable',
  ],
  ['host_unreachable', [host({ ailment: 'libvirt restarts', ailsLately: true })], 'libvirt restarts'],
  ['image_unavailable', [host({ images: ['desktop'] })], 'hosts have: desktop'],
  ['no_room', [host({ heldMemoryMiB: 3_500 })], 'alpha has 596 MiB of memory free, 1024 are needed'],
  ['no_room', [host({ freeDiskGiB: 0 })], 'alpha’s disk is full'],
  ['no_room', [host({ heldDiskGiB: 95 })], 'alpha has 5 GiB of disk free, 10 are needed'],
] as const)('refuses with %s and says why', (code, hosts, words) => {
  const refusal = refusalOf(() => chooseHost([...hosts], request))
  expect(refusal.code).toBe(code)
  expect(refusal.extra.cause).toContain(words)
  expect(refusal.detail).toBe(messageOf(code))
})

test('a desktop that moves goes to another host that lets it in, and to none where it does not fit', () => {
  const leaving = { operationId: 'o', not: ['h1', 'misfit'] }
  const hosts = ['h1', 'misfit', 'shut', 'open'].map((id) => host({ id, letsIn: id !== 'shut' }))
  expect(chooseHost(hosts, { ...request, leaving }).id).toBe('open')
  expect(refusalOf(() => chooseHost(hosts.slice(0, 3), { ...request, leaving })).code).toBe('no_host')
})

test('a desktop is relayed to a host without an address only where it may be, and where no other host has room', () => {
  const leaving = { operationId: 'o', not: ['h1'], mayRelay: true }
  const [shut, open] = [host({ id: 'shut' }), host({ id: 'open', letsIn: true })]
  expect(chooseHost([shut, open], { ...request, leaving }).id).toBe('open')
  expect(chooseHost([shut], { ...request, leaving }).id).toBe('shut')
  const notRelayed = { ...leaving, mayRelay: false }
  expect(refusalOf(() => chooseHost([shut], { ...request, leaving: notRelayed })).code).toBe('no_host')
})

test('a desktop whose disk is on a host needs no new disk there, and wakes on no other host', () => {
  expect(requireHost(host({ heldDiskGiB: 100, freeDiskGiB: 0 }), request).id).toBe('h1')
  expect(refusalOf(() => requireHost(undefined, request)).code).toBe('host_away')
  expect(refusalOf(() => requireHost(host({ ailment: 'no QEMU' }), request)).code).toBe('host_away')
  expect(refusalOf(() => requireHost(host({ ailment: 'no QEMU', ailsLately: true }), request)).code).toBe(
    'host_unreachable',
  )
  expect(refusalOf(() => requireHost(host({ heldMemoryMiB: 4_000 }), request)).code).toBe('no_room')
})

test('a registered image is on a host by its digest, and a host that lacks it takes the desktop where it can fetch it', () => {
  const registered = {
    name: 'mini',
    version: '1',
    digest: 'a'.repeat(64),
    source: 'http://images/',
    bytes: 2 * 1024 ** 3,
  }
  const ofImage = { ...request, image: 'mini', registered }
  const digests = [{ image: 'mini@1', digest: registered.digest }]
  const has = host({ id: 'has', digests, freeDiskGiB: 2 })
  const another = host({ id: 'another', freeDiskGiB: 2, digests: [{ image: 'mini@1', digest: 'b'.repeat(64) }] })
  expect(chooseHost([another, has], ofImage).id).toBe('has')
  expect(chooseHost([another, host({ id: 'fetches' })], ofImage).id).toBe('fetches')
  for (const unable of [another, host({ freeDiskGiB: 2 })]) {
    expect(refusalOf(() => chooseHost([unable], ofImage)).code).toBe('image_unavailable')
  }
  const moving = { ...ofImage, leaving: { operationId: 'op', not: ['here'] } }
  const fetches = host({ id: 'fetches', letsIn: true })
  expect(chooseHost([{ ...another, letsIn: true }, fetches], moving).id).toBe('fetches')
})
