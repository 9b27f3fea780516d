// Guarantee: what prevents a working host fails before anything is changed, what does not is a warning, and a machine that
// lies about itself gets no more than a wrong table.
import type { HostJson } from '@dormouse/client'
import { expect, test } from 'vitest'
import { isBlocked, judge } from './checks.ts'
import { type Facts, packages, parse } from './facts.ts'

const own = '019a9f00-0000-7000-8000-0000000000cc'
const host = (wanted: Partial<HostJson>) => ({ id: own, name: 'hv-1', state: 'active', ...wanted }) as HostJson

const text = `id=debian
version=12
name=Debian GNU/Linux 12 (bookworm)
machine=x86_64
systemd=yes
processors=8
kvm=usable
${packages.map((name) => `installed:${name}=9.0.0-4`).join('\n')}
disk=200000
memory=32000
host=
`
const good = parse(text)

const judged = (facts: Partial<Facts> = {}, given: object = {}) =>
  judge({ facts: { ...good, ...facts }, reach: [], hosts: [], name: 'hv-1', ...given })
const resultOf = (name: string, facts: Partial<Facts> = {}, given: object = {}) =>
  judged(facts, given).find((check) => check.name === name)!.result

test('a machine with everything passes', () => {
  expect(judged().filter(({ result }) => result !== 'ok')).toEqual([])
})

test.each([
  ['debian', '11', 'failed'],
  ['debian', '12', 'ok'],
  ['debian', '13', 'ok'],
  ['ubuntu', '20.04', 'failed'],
  ['ubuntu', '22.04', 'ok'],
  ['ubuntu', '24.04', 'ok'],
  ['ubuntu', '24.10', 'failed'],
  ['ubuntu', '25.04', 'failed'],
  ['fedora', '44', 'failed'],
  ['', '', 'failed'],
])('the distribution %s %s: %s', (id, version, result) => {
  expect(resultOf('distribution', { distribution: { id, version, name: id } })).toBe(result)
})

test.each<[string, Partial<Facts>, string]>([
  ['distribution', { machine: 'aarch64' }, 'failed'],
  ['systemd', { systemd: false }, 'failed'],
  ['KVM', { kvm: 'no flag' }, 'warning'],
  ['KVM', { kvm: 'no device' }, 'warning'],
  ['libvirt', { packages: { 'libvirt-daemon-system': { candidate: '7.0.0-3' } } }, 'failed'],
  ['libvirt', { packages: { 'libvirt-daemon-system': { candidate: '11.3.0-3' } } }, 'ok'],
  ['libvirt', { packages: {} }, 'warning'],
  ['QEMU', { packages: { 'qemu-system-x86': { installed: '1:7.2+dfsg-7' } } }, 'ok'],
  ['QEMU', { packages: { 'qemu-system-x86': { installed: '1:5.2+dfsg-11' } } }, 'failed'],
  ['disk', { diskFreeMiB: 1_000 }, 'failed'],
  ['disk', { diskFreeMiB: 10_000 }, 'warning'],
  ['memory', { memoryMiB: 512 }, 'failed'],
  ['clock', { clock: { offsetSecs: 1.9, errorSecs: 0 } }, 'ok'],
  ['clock', { clock: { offsetSecs: -60, errorSecs: 0.1 } }, 'warning'],
  ['clock', { clock: { offsetSecs: -7_200, errorSecs: 0.1 } }, 'failed'],
  ['clock', { clock: { offsetSecs: Number.NaN, errorSecs: 0 } }, 'failed'],
])('%s with %j: %s', (name, facts, result) => {
  expect(resultOf(name, facts)).toBe(result)
})

test('a host that is known keeps its identity; one that is removed, foreign, or has another’s name is refused', () => {
  const agent = { hostId: own, hasSettings: true, active: true }
  expect(resultOf('enrolment', { agent }, { hosts: [host({})] })).toBe('ok')
  expect(resultOf('enrolment', { agent }, { hosts: [host({ state: 'removed' })] })).toBe('failed')
  expect(resultOf('enrolment', { agent }, { hosts: [] })).toBe('failed')
  expect(resultOf('enrolment', {}, { hosts: [host({ id: 'another' })] })).toBe('failed')
  expect(resultOf('enrolment', {}, { hosts: [host({ id: 'another', state: 'removed' })] })).toBe('ok')
  expect(resultOf('enrolment', {}, { upgrade: true })).toBe('failed')
})

test('every check that is not ok says what to do', () => {
  const worst = judged(parse(''), { reach: [{ url: 'https://x', result: 'failed', found: 'no', next: 'mend it' }] })
  expect(worst.filter(({ result, next }) => result !== 'ok' && !next)).toEqual([])
  expect(isBlocked(worst)).toBe(true)
})

test('what a hostile machine prints is cut, and only ids are taken for ids', () => {
  const facts = parse(`name=${'x'.repeat(10_000)}\nhost=../../etc\nprocessors=many\n=\n\u001b[2J\n`)
  expect(facts.distribution.name).toHaveLength(100)
  expect(facts.agent.hostId).toBeUndefined()
  expect(facts.processors).toBe(0)
  expect(parse(`host=${own}`).agent.hostId).toBe(own)
})
