// Guarantee: nothing but the questions changes, and under KVM nothing changes before the comparison. On a real libvirt:
// `test/real/cpu-questions.test.ts`.
import { newId } from '@dormouse/contract'
import { createLog } from '@dormouse/process'
import { expect, test } from 'vitest'
import { CpuQuestions, withFewCpuQuestions } from './cpu-questions.ts'

const xml = `<domain type="kvm" id="3">
  <name>any</name>
  <os><type arch='x86_64' machine='pc-i440fx-7.2'>hvm</type></os>
  <cpu mode='custom'><model fallback='forbid'>Skylake</model></cpu>
</domain>
`

test('the domain hides the capability, once, and keeps all else', () => {
  const short = withFewCpuQuestions(xml)
  expect(short).toContain("<qemu:del capability='cpu-unavailable-features'/></qemu:capabilities></domain>")
  expect(short.replace(/ xmlns:qemu='[^']*'/, '').replace(/<qemu:capabilities>.*<\/qemu:capabilities>/, '')).toBe(xml)
  expect(withFewCpuQuestions(short)).toBe(short)
})

test('a domain that uses the namespace already declares it once', () => {
  const used = xml.replace('<domain', "<domain xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'")
  expect(withFewCpuQuestions(used).match(/xmlns:qemu/g)).toHaveLength(1)
})

test('under KVM a domain is started as before while its CPU was not compared; an emulated one is not', () => {
  const cpu = new CpuQuestions(createLog({ name: 'cpu', level: 'silent' }))
  expect(cpu.shorten(xml, true)).toBe(xml)
  expect(cpu.shorten(xml, false)).toContain('qemu:del')
})

/** A libvirt whose domains describe these CPUs, one after the other. */
function libvirtWith(cpus: string[]) {
  const made: unknown[] = []
  const createXml = async (created: string, options: object) => {
    made.push(options)
    const described = cpus.shift()
    return { xml: async () => created.replace(/<cpu[\s\S]*<\/cpu>/, described ?? ''), destroy: async () => undefined }
  }
  return { made, host: { domains: { createXml } } as unknown as Parameters<CpuQuestions['check']>[0] }
}

const plan = {
  installationId: newId(),
  type: 'kvm',
  emulator: '/qemu',
  machine: 'pc-i440fx-7.2',
  cpuModel: 'Skylake',
} as const

test.each([
  ['the same', ['<cpu>a</cpu>', '<cpu>a</cpu>'], true],
  ['another', ['<cpu>a</cpu>', '<cpu>b</cpu>'], false],
  ['not described', [], false],
])('a CPU that is %s with few questions', async (_, cpus, isShort) => {
  const cpu = new CpuQuestions(createLog({ name: 'cpu', level: 'silent' }))
  const { host, made } = libvirtWith([...cpus])
  await cpu.check(host, plan)
  expect(made[0]).toEqual({ paused: true, autodestroy: true })
  expect(cpu.shorten(xml, true) !== xml).toBe(isShort)
  // It was compared for this machine and this model only.
  expect(cpu.shorten(xml.replace('Skylake', 'Haswell'), true)).not.toContain('qemu:del')
})
