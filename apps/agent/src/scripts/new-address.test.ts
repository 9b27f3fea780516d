// Guarantee: the script of a new address is a shell script, fails if no device has that hardware address, and
// holds a host's text as text.
import { execFileSync, spawnSync } from 'node:child_process'
import { expect, test } from 'vitest'
import { newAddressScript } from './new-address.ts'

test('it fails where no device is meant', () => {
  const script = newAddressScript({ mac: '52:00:00:00:00:01', ip: '192.0.2.7' })
  expect(spawnSync('/bin/sh', ['-eu', '-c', `${script}\necho done`])).toMatchObject({
    status: 1,
    stdout: Buffer.alloc(0),
  })
  execFileSync('/bin/sh', ['-n', '-c', script])
})

test('what it is given is quoted', () => {
  const script = newAddressScript({ mac: `'; echo hacked; '`, ip: '$(echo hacked)' })
  expect(spawnSync('/bin/sh', ['-c', script]).stdout.toString()).toBe('')
})
