// Guarantee: a replica has the latest report of each desktop's host, and none once the link has ended.
import { newId } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { HostReports } from './host-reports.ts'

const [host, other, one, two] = [newId(), newId(), newId(), newId()] as [string, string, string, string]
const running = [one, two].map((desktopId) => ({ desktopId, generation: 1 }))
const item = (desktopId: string, more: object = {}) => ({
  ...{ desktopId, generation: 1, watchedMs: 60_000, busy: [], ages: {} },
  ...more,
})

test('a report has what has changed, and the rest stays known while the desktop runs', () => {
  const reports = new HostReports()
  reports.heard(host, { running, activity: [item(one, { ages: { command: 5_000 } }), item(two)] })
  reports.heard(host, { running, activity: [item(two, { busy: ['cpu'], ages: { cpu: 0 } })] })
  expect(reports.of(host, one, 1)?.ages.command).toBeGreaterThanOrEqual(5_000)
  expect(reports.of(host, two, 1)).toMatchObject({ busy: ['cpu'], ages: { cpu: 0 } })
  reports.heard(host, { running: running.slice(1), activity: [] })
  expect(reports.of(host, one, 1)).toBeUndefined()
  expect(reports.of(host, two, 2)).toBeUndefined()
  reports.forget(host)
  expect(reports.of(host, two, 1)).toBeUndefined()
})

test('a host speaks for what it runs alone', () => {
  const reports = new HostReports()
  reports.heard(other, { running: [], activity: [item(one)] })
  expect([reports.of(other, one, 1), reports.of(host, one, 1)]).toEqual([undefined, undefined])
})

test('a time never goes back, and is stored once, and what goes on again and again', async () => {
  const reports = new HostReports()
  reports.heard(host, { running, activity: [item(one, { ages: { command: 1_000 } })] })
  reports.heard(host, { running, activity: [item(one, { ages: { command: 9_000 } })] })
  expect(reports.of(host, one, 1)!.ages.command).toBeLessThan(5_000)
  const taken = () => reports.takeUnstored(100).map((note) => [note.desktopId, note.class])
  expect([taken(), taken()]).toEqual([[[one, 'command']], []])
  reports.observed(host, item(one, { busy: ['transfer'], ages: { transfer: 0 } }))
  expect(reports.takeUnstored(100)).toMatchObject([{ hostId: host, desktopId: one, class: 'transfer', ageMs: 0 }])
})
