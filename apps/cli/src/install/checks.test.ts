// Guarantee: what prevents a working host fails before anything is changed, and a machine that lies about itself gets no more
// than a wrong table.
import type { HostJson } from '@dormouse/client'
import { expect, test } from 'vitest'
import { isBlocked, judge, rowsIn } from './checks.ts'
import { type Facts, parse } from './facts.ts'
import { sourceOf } from './package.ts'

const own = '019a9f00-0000-7000-8000-0000000000cc'
const host = (wanted: Partial<HostJson>) => ({ id: own, name: 'hv-1', state: 'active', ...wanted }) as HostJson

const text = `id=debian
version=12
name=Debian GNU/Linux 12 (bookworm)
machine=x86_64
systemd=yes
disk=200000
candidate=0.1.0
host=
`
const good = parse(text)
const source = sourceOf({})

const judged = (facts: Partial<Facts> = {}, given: object = {}) =>
  judge({ facts: { ...good, ...facts }, source, hosts: [], name: 'hv-1', ...given })
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
  ['disk', { diskFreeMiB: 1_000 }, 'failed'],
  ['package', { agent: { candidate: '(none)' } }, 'failed'],
  ['package', { agent: {} }, 'failed'],
  ['package', { agent: { installed: '0.1.0' } }, 'ok'],
  ['package', { agent: { installed: '0.1.0' }, hasEarlierBuild: true }, 'failed'],
])('%s with %j: %s', (name, facts, result) => {
  expect(resultOf(name, facts)).toBe(result)
})

test('a host that is known keeps its identity; one that is removed, foreign, or has another’s name is refused', () => {
  const agent = { hostId: own, installed: '0.1.0' }
  expect(resultOf('enrolment', { agent }, { hosts: [host({})] })).toBe('ok')
  expect(resultOf('enrolment', { agent }, { hosts: [host({ state: 'removed' })] })).toBe('failed')
  expect(resultOf('enrolment', { agent }, { hosts: [] })).toBe('failed')
  expect(resultOf('enrolment', {}, { hosts: [host({ id: 'another' })] })).toBe('failed')
  expect(resultOf('enrolment', {}, { hosts: [host({ id: 'another', state: 'removed' })] })).toBe('ok')
  expect(resultOf('enrolment', {}, { upgrade: true })).toBe('failed')
})

test('every check that is not ok says what to do', () => {
  const worst = judged(parse(''))
  expect(worst.filter(({ result, remedy }) => result !== 'ok' && !remedy)).toEqual([])
  expect(isBlocked(worst)).toBe(true)
})

test('what a hostile machine prints is cut, and only ids are taken for ids', () => {
  const facts = parse(`name=${'x'.repeat(10_000)}\nhost=../../etc\ninstalled=$(reboot)\n=\n\u001b[2J\n`)
  expect(facts.distribution.name).toHaveLength(100)
  expect(facts.agent).toEqual({})
  expect(parse(`host=${own}`).agent.hostId).toBe(own)
  expect(rowsIn(JSON.stringify({ checks: [{ name: {}, result: 'fine', detail: 'x'.repeat(1_000) }] }))).toEqual([
    { name: '[object Object]', result: 'failed', detail: 'x'.repeat(300) },
  ])
  for (const other of ['', '[]', '{"checks":1}', 'null']) expect(rowsIn(other)).toBeUndefined()
})

test.each([
  [{ package: '/no/such.deb' }, 'is no file'],
  [{ package: '/etc/hostname', repository: 'https://x' }, 'is a file of one version'],
  [{ repository: 'http://apt.example' }, 'needs a signature'],
  [{ repository: 'https://apt.example\nTrusted: yes' }, 'is not the URL'],
  [{ signedBy: '/etc/hostname' }, 'is the key of a repository'],
  [{ agentVersion: '1 rm' }, 'is no version'],
])('%j is no source', (given, why) => {
  expect(() => sourceOf(given)).toThrow(why)
})
