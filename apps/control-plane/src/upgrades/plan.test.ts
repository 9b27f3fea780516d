// Guarantee: a plan upgrades replicas before hosts and the leader last, goes back the other way, and names what does not work.
import type { HostJson, ReplicaJson } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { planOf } from './plan.ts'
import { compare, workTogether } from './versions.ts'

const replica = (name: string, version: string, leads = false) =>
  ({ id: name, url: name, version, commit: 'c', leads, started_at: '', seen_at: '' }) satisfies ReplicaJson
const host = (name: string, version: string | null, more: Partial<HostJson> = {}) =>
  ({ id: name, name, version, state: 'active', linked: true, upgradable: true, ...more }) as HostJson

const short = (steps: string[]) => steps.map((step) => /where (\w+) runs|upgrade (.*):/.exec(step)?.slice(1).join(''))

test('replicas first, the leader as the last of them, then the hosts; back, the other way round', () => {
  const hosts = [host('h1', '0.1.0'), host('h2', '0.1.0')]
  const forth = planOf([replica('a', '0.1.0', true), replica('b', '0.1.0'), replica('c', '0.2.0')], hosts, null)
  expect([forth.target, short(forth.steps), forth.problems]).toEqual(['0.2.0', ['b', 'a', '2 hosts'], []])
  const back = planOf([replica('a', '0.2.0', true)], [host('h1', '0.2.0')], '0.1.0')
  expect(short(back.steps)).toEqual(['1 host', 'a'])
  expect(back.problems).toEqual([expect.stringContaining('there is one replica')])
})

test('what is not reached, ill, withheld, without the unit or two releases away is named', () => {
  const hosts = [
    host('far', '0.1.0'),
    host('gone', '0.2.0', { linked: false }),
    host('ill', '0.2.0', { ailment: 'no disk' }),
    host('old', null, { upgradable: false }),
    host('done', '0.3.0'),
  ]
  const { problems, hosts: shown } = planOf([replica('a', '0.3.0', true)], hosts, null)
  expect(shown.map(({ action }) => action)).toEqual(['upgrade', 'blocked', 'blocked', 'blocked', 'none'])
  expect(problems).toEqual([
    expect.stringContaining('the host far runs 0.1.0, which does not work with 0.3.0'),
    expect.stringContaining('the host gone: it is unreachable'),
    expect.stringContaining('the host ill: it reports a problem: no disk'),
    expect.stringContaining('the host old: no unit'),
  ])
})

test('versions are compared by their numbers, and revisions of packages do not count', () => {
  expect(['0.10.0', '0.9.1', 'x', '0.9.0-1'].toSorted(compare)).toEqual(['x', '0.9.0-1', '0.9.1', '0.10.0'])
  expect(compare('0.2.0', '0.2.0-1')).toBe(0)
  expect([workTogether('0.1.4', '0.2.0'), workTogether('0.1.0', '0.3.0'), workTogether('0.9.0', '1.0.0')]).toEqual([
    true,
    false,
    false,
  ])
})
