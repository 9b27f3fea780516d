// Which packages are asked for, on machines that have some of the tools.
import { expect, test } from 'vitest'
import { missingNeeds } from './packages.ts'

const names = (exists: (file: string) => boolean) => missingNeeds(exists).flatMap(({ packages }) => packages)

test('a machine that has everything is asked for nothing, a bare one for everything', () => {
  expect(names(() => true)).toEqual([])
  expect(names(() => false)).toEqual(expect.arrayContaining(['qemu-system-x86', 'libvirt-daemon', 'busybox-static']))
})

test('a tool counts as there in whichever folder of programs it lies', () => {
  expect(names((file) => file === '/bin/busybox')).not.toContain('busybox-static')
  expect(names((file) => file === '/usr/sbin/debugfs')).not.toContain('e2fsprogs')
})

test('the parts of libvirt that some distributions have apart are looked for as such', () => {
  const without = (part: string) => names((file) => !file.includes(part))
  expect(without('driver_storage')).toEqual(['libvirt-daemon-driver-storage'])
  expect(without('driver_qemu')).toEqual(['libvirt-daemon-driver-qemu'])
})
