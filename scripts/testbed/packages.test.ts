// Guarantee: only packages that are missing are requested.
import { expect, test } from 'vitest'
import { missingNeeds } from './packages.ts'

const names = (exists: (file: string) => boolean) => missingNeeds(exists).flatMap(({ packages }) => packages)

test('nothing is missing on a complete machine, and everything on a bare one', () => {
  expect(names(() => true)).toEqual([])
  expect(names(() => false)).toEqual(expect.arrayContaining(['qemu-system-x86', 'libvirt-daemon', 'busybox-static']))
})

test('a program is found in any of the system’s program folders', () => {
  expect(names((file) => file === '/bin/busybox')).not.toContain('busybox-static')
  expect(names((file) => file === '/usr/sbin/debugfs')).not.toContain('e2fsprogs')
})

test('libvirt’s drivers are looked for separately, since some distributions package them so', () => {
  const without = (part: string) => names((file) => !file.includes(part))
  expect(without('driver_storage')).toEqual(['libvirt-daemon-driver-storage'])
  expect(without('driver_qemu')).toEqual(['libvirt-daemon-driver-qemu'])
})
