// Guarantee: a dependency listing leads to the right packages.
import { expect, test } from 'vitest'
import { needed } from './debs.ts'

const listing = `linux-image-cloud-amd64
  Depends: linux-image-6.1.0-56-cloud-amd64
linux-image-6.1.0-56-cloud-amd64
  Depends: kmod
  Depends: linux-modules-6.1.0-56
openssh-server
  PreDepends: init-system-helpers
  Depends: adduser
  Depends: libpam-runtime
 |Depends: libfirst
  Depends: libsecond
    libthird
  Depends: zlib1g
libfirst
  Depends: libc6
libc6
  Depends: libgcc-s1
libgcc-s1
  Depends: gcc-12-base
  Depends: libc6
adduser
  Depends: libonly-for-adduser
`

test('follows libraries and the kernel, not programs, and takes the first of alternatives', () => {
  expect(needed(['linux-image-cloud-amd64', 'openssh-server'], listing).sort()).toEqual([
    'gcc-12-base',
    'libc6',
    'libfirst',
    'libgcc-s1',
    'linux-image-6.1.0-56-cloud-amd64',
    'linux-image-cloud-amd64',
    'linux-modules-6.1.0-56',
    'openssh-server',
    'zlib1g',
  ])
})
