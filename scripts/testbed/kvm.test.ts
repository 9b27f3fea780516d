// Guarantee: KVM works only if the processor supports it and the device opens.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { kvmWorks } from './kvm.ts'

const folder = mkdtempSync(join(tmpdir(), 'dormouse-kvm-'))
afterAll(() => rmSync(folder, { recursive: true }))

const cpuWith = (flags: string) => {
  const file = join(folder, `cpuinfo-${flags.replaceAll(' ', '-')}`)
  writeFileSync(file, `processor\t: 0\nmodel name\t: vmx in name only\nflags\t\t: ${flags}\n`)
  return file
}

test('needs both the device and the processor’s support', () => {
  const device = join(folder, 'kvm')
  writeFileSync(device, '')
  expect(kvmWorks({ cpuInfo: cpuWith('fpu vmx sse'), device })).toBe(true)
  expect(kvmWorks({ cpuInfo: cpuWith('fpu svm'), device })).toBe(true)
  expect(kvmWorks({ cpuInfo: cpuWith('fpu sse'), device })).toBe(false)
  expect(kvmWorks({ cpuInfo: cpuWith('fpu vmxish'), device })).toBe(false)
  expect(kvmWorks({ cpuInfo: cpuWith('fpu vmx'), device: join(folder, 'none') })).toBe(false)
})
