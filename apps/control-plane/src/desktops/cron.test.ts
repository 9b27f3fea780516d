// Guarantee: a cron expression means the same as in every cron, in its own time zone, also where clocks change.
import { expect, test } from 'vitest'
import { cronAfter, instantOf, isCron, isTimeZone } from './cron.ts'

const following = (count: number, cron: string, zone: string, from: string): string[] => {
  const times: Date[] = [new Date(from)]
  while (times.length <= count) times.push(cronAfter(cron, zone, times.at(-1)!)!)
  return times.slice(1).map((time) => time.toISOString().replace(/:00\.000Z$/, 'Z'))
}

test.each([
  ['* * * * *', true],
  ['0 8 * * 1-5', true],
  ['*/15 9-17/2 1,15 jan-mar,DEC Mon,wed,7', true],
  ['60 0 * * *', false],
  ['0 24 * * *', false],
  ['0 0 0 * *', false],
  ['5/10 * * * *', false],
  ['*/0 * * * *', false],
  ['0 0 5-2 * *', false],
  ['0 0 8 * * 1', false],
  ['0 8 * *', false],
  ['@daily', false],
  ['0 0 L * *', false],
  ['0 0 1W * *', false],
  ['0 0 * * 5#2', false],
  ['0 0 ? * *', false],
  ['2026-01-01T00:00:00', false],
  ['', false],
])('"%s" is a cron expression: %s', (text, expected) => {
  expect(isCron(text)).toBe(expected)
})

test('a time zone has a name', () => {
  for (const name of ['UTC', 'Europe/Berlin', 'America/Argentina/Buenos_Aires', 'Etc/GMT+5', 'europe/berlin'])
    expect([name, isTimeZone(name)]).toEqual([name, true])
  for (const name of ['', '+01:00', '01:00', 'Nowhere/City', '../etc/passwd', 'Europe/', 'Europe/Berlin\n'])
    expect([name, isTimeZone(name)]).toEqual([name, false])
})

test('days are those of the time zone, and a day of the month or of the week is enough', () => {
  expect(following(2, '0 8 * * 1-5', 'Asia/Tokyo', '2026-01-02T00:00:00Z')).toEqual([
    '2026-01-04T23:00Z',
    '2026-01-05T23:00Z',
  ])
  expect(following(3, '0 0 13 * fri', 'UTC', '2026-01-03T00:00:00Z')).toEqual([
    '2026-01-09T00:00Z',
    '2026-01-13T00:00Z',
    '2026-01-16T00:00Z',
  ])
})

test('where clocks go forward, a time that is left out comes right behind the gap, once', () => {
  expect(following(2, '30 2 * * *', 'Europe/Berlin', '2026-03-28T12:00:00Z')).toEqual([
    '2026-03-29T01:00Z',
    '2026-03-30T00:30Z',
  ])
  expect(following(2, '0 8 * * *', 'Europe/Berlin', '2026-03-28T00:00:00Z')).toEqual([
    '2026-03-28T07:00Z',
    '2026-03-29T06:00Z',
  ])
})

test('where clocks go back, a time of the hour that comes twice is done once, whenever the first was noted', () => {
  for (const from of ['2026-10-24T12:00:00Z', '2026-10-25T00:29:59Z'])
    expect(following(2, '30 2 * * *', 'Europe/Berlin', from)).toEqual(['2026-10-25T00:30Z', '2026-10-26T01:30Z'])
  expect(following(1, '30 2 * * *', 'Europe/Berlin', '2026-10-25T00:30:07Z')).toEqual(['2026-10-26T01:30Z'])
  expect(following(4, '30 * * * *', 'Europe/Berlin', '2026-10-24T23:45:00Z')).toEqual([
    '2026-10-25T00:30Z',
    '2026-10-25T01:30Z',
    '2026-10-25T02:30Z',
    '2026-10-25T03:30Z',
  ])
})

test('a time that never comes is none', () => {
  for (const cron of ['0 0 31 2 *', '0 0 30 feb *', '0 0 31 4,6,9,11 *'])
    expect(cronAfter(cron, 'Europe/Berlin', new Date('2026-01-01T00:00:00Z'))).toBeNull()
  expect(cronAfter('0 0 29 2 *', 'UTC', new Date('2026-01-01T00:00:00Z'))?.toISOString()).toMatch(/^2028-02-29/)
})

test('a local time is one instant, also where clocks change', () => {
  const instants = ['2026-01-31T08:00', '2026-07-31T08:00:00', '2026-03-29T02:30:00', '2026-10-25T02:30:00']
  expect(instants.map((local) => instantOf(local, 'Europe/Berlin').toISOString())).toEqual([
    '2026-01-31T07:00:00.000Z',
    '2026-07-31T06:00:00.000Z',
    '2026-03-29T01:30:00.000Z',
    '2026-10-25T00:30:00.000Z',
  ])
})
