import { type Heartbeat, newId, type UsageJson } from '@dormouse/contract'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { House } from '../house.ts'
import { waitFor } from '../wait-for.ts'

const usage = async (house: House, query = '', key = house.org.key): Promise<UsageJson> => {
  const answer = await house.api('GET', `/v1/usage${query}`, { key })
  if (answer.status !== 200) throw new Error(`usage: ${answer.status} ${answer.text}`)
  return answer.json as UsageJson
}

const ofDesktop = async (house: House, id: string, query = '') =>
  (await usage(house, query)).desktops.find(({ desktop_id }) => desktop_id === id)

interface Interval {
  kind: string
  open: boolean
  generation: number
  secs: number | null
  openedBy: string | null
  closedBy: string | null
}

const ledgerOf = (house: House, id: string): Promise<Interval[]> =>
  house.database.rows<Interval & Record<string, unknown>>(
    `select kind, upper_inf(period) as open, generation::int, opened_by as "openedBy", closed_by as "closedBy",
       extract(epoch from upper(period) - lower(period))::float as secs
     from usage_intervals where desktop_id = $1 order by id`,
    [id],
  )

/** Writes an interval of a desktop that has none, as if it had happened then. Times in Unix seconds. */
const book = (house: House, id: string, kind: string, from: number, to: number | null, aliveUntil = to ?? from) =>
  house.database.rows(
    `insert into usage_intervals (desktop_id, org_id, tier, billing_mode, kind, generation, period, alive_until)
     select id, org_id, tier, billing_mode, $2, 1, tstzrange(to_timestamp($3), to_timestamp($4)), to_timestamp($5)
     from desktops where id = $1`,
    [id, kind, from, to, aliveUntil],
  )

/** A host's heartbeat with one desktop, as its link hands it up. */
const says = (house: House, hostId: string, living: { desktopId: string; generation: number }) =>
  house.replica.parts.usage.heard(hostId, { running: [living], facts: { ailment: null } } as Heartbeat)

test('the ledger opens and closes with the operations that settle, names them, and counts both kinds', async () => {
  await using house = await House.start()
  const { id } = await house.desktop()
  expect(await ledgerOf(house, id)).toEqual([])
  const wake = await house.ask(id, 'wake')
  await waitFor('awake seconds', async () => ((await ofDesktop(house, id))?.awake_seconds ?? 0) > 0)
  const slept = await house.ask(id, 'hibernate')
  const again = await house.ask(id, 'wake')
  const gone = await house.ask(id, 'destroy')
  expect(await ledgerOf(house, id)).toMatchObject([
    { kind: 'awake', open: false, generation: 1, openedBy: wake.id, closedBy: slept.id },
    { kind: 'hibernated', open: false, generation: 1, openedBy: slept.id, closedBy: again.id },
    { kind: 'awake', open: false, generation: 2, openedBy: again.id, closedBy: gone.id },
  ])
  const row = await ofDesktop(house, id)
  expect(row).toMatchObject({ tier: 'small', billing_mode: 'hourly' })
  expect(row!.awake_seconds).toBeGreaterThan(0)
  expect(row!.hibernated_seconds).toBeGreaterThan(0)
  const { totals } = await usage(house)
  const { desktop_id: _, ...rest } = row!
  expect(totals).toEqual([rest])
})

test('no two intervals of a desktop can overlap, whoever writes them', async () => {
  await using house = await House.start({ hosts: 0 })
  const { id } = await house.desktop()
  await book(house, id, 'awake', 1_000, 2_000)
  await book(house, id, 'hibernated', 2_000, 3_000)
  await expect(book(house, id, 'awake', 1_999, 2_001)).rejects.toThrow(/exclusion constraint/)
  await expect(book(house, id, 'hibernated', 500, null)).rejects.toThrow(/exclusion constraint/)
})

test('a failed wake leaves what sleeps on counted as hibernated, in one interval', async () => {
  await using house = await House.start()
  const { id } = await house.desktop('hibernated')
  house.failingAt('wake', 'run')
  house.chronicle.foresee(/step failed/)
  const failed = await house.begin(id, 'wake')
  expect((await house.settled(failed.id)).state).toBe('failed')
  house.failpoints.set('wake.run.after', undefined)
  const state = (await house.see(id)).state
  expect(state).toBe('hibernated')
  expect((await ledgerOf(house, id)).map(({ kind, open }) => [kind, open])).toEqual([
    ['awake', false],
    ['hibernated', true],
  ])
})

test('a desktop whose guest powers off is billed up to its last proof of life and no further', async () => {
  await using house = await House.start()
  const { id } = await house.desktop('awake')
  await waitFor('a proof of life', async () => ((await ofDesktop(house, id))?.awake_seconds ?? 0) > 0)
  house.host.driver.die(id)
  await house.becomes(id, 'stopped')
  const [closed] = await ledgerOf(house, id)
  const proof = await house.database.rows<{ proved: boolean }>(
    'select upper(period) = alive_until as proved from usage_intervals where desktop_id = $1',
    [id],
  )
  expect(closed).toMatchObject({ kind: 'awake', open: false, closedBy: null })
  expect(proof).toEqual([{ proved: true }])
  const first = await ofDesktop(house, id)
  expect(await ofDesktop(house, id)).toEqual(first)
})

test('a silent host bills nothing more, and where the desktop lived on, the time is made good', async () => {
  await using house = await House.start()
  const { id } = await house.desktop('awake')
  await waitFor('a proof of life', async () => ((await ofDesktop(house, id))?.awake_seconds ?? 0) > 0)
  await house.killAgent()
  const silent = await ofDesktop(house, id)
  expect(await ofDesktop(house, id)).toEqual(silent)
  await says(house, house.host.id, { desktopId: id, generation: 0 })
  await says(house, newId(), { desktopId: id, generation: 1 })
  expect(await ofDesktop(house, id), 'another generation, another host').toEqual(silent)
  await house.restartAgent()
  const later = await waitFor('the next proof', async () => {
    const row = await ofDesktop(house, id)
    return row!.awake_seconds > silent!.awake_seconds && row
  })
  expect(await ledgerOf(house, id)).toMatchObject([{ open: true }])
  expect(later!.awake_seconds).toBeGreaterThan(silent!.awake_seconds)
})

test('a desktop that died with its silent host is not billed for the silence, also where it is destroyed in it', async () => {
  await using house = await House.start()
  const { id } = await house.desktop('awake')
  await waitFor('a proof of life', async () => ((await ofDesktop(house, id))?.awake_seconds ?? 0) > 0)
  await house.killAgent()
  const before = await ofDesktop(house, id)
  expect((await house.ask(id, 'destroy')).result).toMatchObject({ cleanup: 'deferred' })
  expect(await ofDesktop(house, id)).toEqual(before)
  expect(await ledgerOf(house, id)).toMatchObject([{ kind: 'awake', open: false }])
  await house.restartAgent()
  await waitFor('the cleanup', async () => !(await house.observed(id)))
  expect(await ofDesktop(house, id)).toEqual(before)
})

test('what is counted is clipped to the range, on either side and on both', async () => {
  await using house = await House.start({ hosts: 0 })
  const { id } = await house.desktop('created', { tier: 'large', billing_mode: 'monthly' })
  await book(house, id, 'awake', 1_000, 2_000.5)
  await book(house, id, 'hibernated', 3_000, 4_000)
  await book(house, id, 'awake', 5_000, null, 5_010.25)
  const seconds = async (start: number, end: number) => {
    const row = await ofDesktop(house, id, `?start=${start}&end=${end}`)
    return row && [row.awake_seconds, row.hibernated_seconds]
  }
  expect(await seconds(0, 9_000)).toEqual([1_010.75, 1_000])
  expect(await seconds(1_000, 2_000.5)).toEqual([1_000.5, 0])
  expect(await seconds(1_200, 1_200.125)).toEqual([0.125, 0])
  expect(await seconds(1_900, 3_500)).toEqual([100.5, 500])
  expect(await seconds(0, 1_000)).toBeUndefined()
  expect(await seconds(2_000.5, 3_000)).toBeUndefined()
  expect(await seconds(1_500, 1_500)).toBeUndefined()
  expect(await seconds(5_005, 253_402_300_799)).toEqual([5.25, 0])
  expect(await seconds(5_010.25, 6_000)).toEqual([0, 0])
})

test('the sums of any ledger and any range are those of a calculation by hand', async () => {
  await using house = await House.start({ hosts: 0 })
  const { id } = await house.desktop()
  const cut = fc.integer({ min: 0, max: 10_000_000 }).map((ms) => ms / 1_000)
  const cuts = fc.uniqueArray(cut, { minLength: 2, maxLength: 12 }).map((times) => times.sort((a, b) => a - b))
  await fc.assert(
    fc.asyncProperty(cuts, cut, cut, async (times, one, other) => {
      const [start, end] = [Math.min(one, other), Math.max(one, other)]
      await house.database.rows('delete from usage_intervals')
      const expected = { awake: 0, hibernated: 0 }
      for (const [i, from] of times.slice(0, -1).entries()) {
        const kind = i % 2 === 0 ? 'awake' : 'hibernated'
        const to = times[i + 1]!
        await book(house, id, kind, from, to)
        expected[kind] += Math.max(0, Math.round((Math.min(to, end) - Math.max(from, start)) * 1_000))
      }
      const { desktops, totals } = await usage(house, `?start=${start}&end=${end}`)
      const [row = { awake_seconds: 0, hibernated_seconds: 0 }] = desktops
      expect(row.awake_seconds).toBe(expected.awake / 1_000)
      expect(row.hibernated_seconds).toBe(expected.hibernated / 1_000)
      expect(totals.map(({ awake_seconds }) => awake_seconds)).toEqual(desktops.map((one) => one.awake_seconds))
    }),
    { numRuns: 40 },
  )
})

test('without a range it is this month in UTC up to now, and the answer says so', async () => {
  await using house = await House.start({ hosts: 0 })
  const before = Date.now() / 1_000
  const { start, end, desktops, totals } = await usage(house)
  const month = new Date(start * 1_000)
  expect([month.getUTCDate(), month.getTime() % 86_400_000]).toEqual([1, 0])
  expect(end).toBeGreaterThanOrEqual(before)
  expect(end).toBeLessThanOrEqual(Date.now() / 1_000)
  expect([desktops, totals]).toEqual([[], []])
})

test('another organisation sees nothing of it', async () => {
  await using house = await House.start({ hosts: 0 })
  const { id } = await house.desktop()
  await book(house, id, 'awake', 1_000, 2_000)
  const { key } = await house.otherOrg
  expect(await usage(house, '?start=0', key)).toMatchObject({ start: 0, desktops: [], totals: [] })
})

test('400 names what is malformed, out of range, repeated or the wrong way round', async () => {
  await using house = await House.start({ hosts: 0 })
  const wrong = {
    start: ['start=x', 'start=0x10', 'start=', 'start=1&start=2', 'start=5&end=4', 'start=99999999999'],
    end: ['end=1e400', 'end=Infinity', 'end=-1', 'end=253402300800', 'end=4'],
  }
  for (const [field, queries] of Object.entries(wrong)) {
    for (const query of queries) {
      const answer = await house.api('GET', `/v1/usage?${query}`)
      expect([query, answer.status, answer.json.code, answer.json.field]).toEqual([
        query,
        400,
        'invalid_request',
        field,
      ])
    }
  }
})

test('a desktop that runs uncounted, or is counted and does not run, is told to the operator at the second look', async () => {
  await using house = await House.start()
  const { id } = await house.desktop('awake')
  const { usage: ledger } = house.replica.parts
  await waitFor('a heartbeat with the desktop', async () => ((await ofDesktop(house, id))?.awake_seconds ?? 0) > 0)
  await ledger.compare()
  await ledger.compare()
  expect(house.chronicle.find(/the ledger/)).toEqual([])
  house.chronicle.foresee(/that the ledger does not count/)
  await house.database.rows('delete from usage_intervals')
  await ledger.compare()
  expect(house.chronicle.find(/does not count/)).toEqual([])
  await ledger.compare()
  expect(house.chronicle.find(/does not count/)).toMatchObject([{ desktop: id, generation: 1, host: house.host.id }])
})

test('neither a heartbeat nor a question ever reads the whole ledger', async () => {
  await using house = await House.start({ hosts: 0 })
  const { id } = await house.desktop()
  await house.database.rows(
    `insert into usage_intervals (desktop_id, org_id, tier, billing_mode, kind, generation, period, alive_until)
     select d.id, d.org_id, d.tier, d.billing_mode, 'awake', n,
       tstzrange(to_timestamp(n * 10), to_timestamp(n * 10 + 5)), to_timestamp(n * 10)
     from desktops d, generate_series(1, 3000) n where d.id = $1`,
    [id],
  )
  await house.database.rows('analyze usage_intervals')
  const plan = async (where: string) => {
    const rows = await house.database.rows<{ 'QUERY PLAN': string }>(
      `explain select * from usage_intervals where ${where}`,
    )
    return rows.map((row) => row['QUERY PLAN']).join('\n')
  }
  const range = 'tstzrange(to_timestamp(100), to_timestamp(200))'
  expect(await plan(`org_id = '${house.org.id}' and period && ${range}`)).not.toContain('Seq Scan')
  expect(await plan(`host_id = '${id}' and kind = 'awake' and upper_inf(period)`)).toContain('usage_intervals_awake')
})
