import { type Heartbeat, newId, type UsageJson } from '@dormouse/contract'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'

const usage = async (stack: Stack, query = '', key = stack.org.key): Promise<UsageJson> => {
  const answer = await stack.api('GET', `/v1/usage${query}`, { key })
  if (answer.status !== 200) throw new Error(`usage: ${answer.status} ${answer.text}`)
  return answer.json as UsageJson
}

const ofDesktop = async (stack: Stack, id: string, query = '') =>
  (await usage(stack, query)).desktops.find(({ desktop_id }) => desktop_id === id)

interface Interval {
  kind: string
  open: boolean
  generation: number
  secs: number | null
  openedBy: string | null
  closedBy: string | null
}

const ledgerOf = (stack: Stack, id: string): Promise<Interval[]> =>
  stack.database.rows<Interval & Record<string, unknown>>(
    `select kind, upper_inf(period) as open, generation::int, opened_by as "openedBy", closed_by as "closedBy",
       extract(epoch from upper(period) - lower(period))::float as secs
     from usage_intervals where desktop_id = $1 order by id`,
    [id],
  )

/** Writes an interval of a desktop that has none, as if it had happened then. Times in Unix seconds. */
const book = (stack: Stack, id: string, kind: string, from: number, to: number | null, aliveUntil = to ?? from) =>
  stack.database.rows(
    `insert into usage_intervals (desktop_id, org_id, tier, billing_mode, kind, generation, period, alive_until)
     select id, org_id, tier, billing_mode, $2, 1, tstzrange(to_timestamp($3), to_timestamp($4)), to_timestamp($5)
     from desktops where id = $1`,
    [id, kind, from, to, aliveUntil],
  )

/** A host's heartbeat with one desktop, as its link hands it up. */
const says = (stack: Stack, hostId: string, living: { desktopId: string; generation: number }) =>
  stack.replica.parts.usage.heard(hostId, { running: [living], facts: { ailment: null } } as Heartbeat)

test('the ledger opens and closes with the operations that settle, names them, and counts both kinds', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop()
  expect(await ledgerOf(stack, id)).toEqual([])
  const wake = await stack.ask(id, 'wake')
  await waitFor('awake seconds', async () => ((await ofDesktop(stack, id))?.awake_seconds ?? 0) > 0)
  const slept = await stack.ask(id, 'hibernate')
  const again = await stack.ask(id, 'wake')
  const gone = await stack.ask(id, 'destroy')
  expect(await ledgerOf(stack, id)).toMatchObject([
    { kind: 'awake', open: false, generation: 1, openedBy: wake.id, closedBy: slept.id },
    { kind: 'hibernated', open: false, generation: 1, openedBy: slept.id, closedBy: again.id },
    { kind: 'awake', open: false, generation: 2, openedBy: again.id, closedBy: gone.id },
  ])
  const row = await ofDesktop(stack, id)
  expect(row).toMatchObject({ tier: 'small', billing_mode: 'hourly' })
  expect(row!.awake_seconds).toBeGreaterThan(0)
  expect(row!.hibernated_seconds).toBeGreaterThan(0)
  const { totals } = await usage(stack)
  const { desktop_id: _, ...rest } = row!
  expect(totals).toEqual([rest])
})

test('no two intervals of a desktop can overlap, whoever writes them', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const { id } = await stack.desktop()
  await book(stack, id, 'awake', 1_000, 2_000)
  await book(stack, id, 'hibernated', 2_000, 3_000)
  await expect(book(stack, id, 'awake', 1_999, 2_001)).rejects.toThrow(/exclusion constraint/)
  await expect(book(stack, id, 'hibernated', 500, null)).rejects.toThrow(/exclusion constraint/)
})

test('a failed wake leaves what sleeps on counted as hibernated, in one interval', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('hibernated')
  stack.failingAt('wake', 'run')
  stack.chronicle.foresee(/step failed/)
  const failed = await stack.begin(id, 'wake')
  expect((await stack.settled(failed.id)).state).toBe('failed')
  stack.failpoints.set('wake.run.after', undefined)
  const state = (await stack.see(id)).state
  expect(state).toBe('hibernated')
  expect((await ledgerOf(stack, id)).map(({ kind, open }) => [kind, open])).toEqual([
    ['awake', false],
    ['hibernated', true],
  ])
})

test('a desktop whose guest powers off is billed up to its last proof of life and no further', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  await waitFor('a proof of life', async () => ((await ofDesktop(stack, id))?.awake_seconds ?? 0) > 0)
  stack.host.driver.die(id)
  await stack.becomes(id, 'stopped')
  const [closed] = await ledgerOf(stack, id)
  const proof = await stack.database.rows<{ proved: boolean }>(
    'select upper(period) = alive_until as proved from usage_intervals where desktop_id = $1',
    [id],
  )
  expect(closed).toMatchObject({ kind: 'awake', open: false, closedBy: null })
  expect(proof).toEqual([{ proved: true }])
  const first = await ofDesktop(stack, id)
  expect(await ofDesktop(stack, id)).toEqual(first)
})

test('a silent host bills nothing more, and where the desktop lived on, the time is made good', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  await waitFor('a proof of life', async () => ((await ofDesktop(stack, id))?.awake_seconds ?? 0) > 0)
  await stack.killAgent()
  const silent = await ofDesktop(stack, id)
  expect(await ofDesktop(stack, id)).toEqual(silent)
  await says(stack, stack.host.id, { desktopId: id, generation: 0 })
  await says(stack, newId(), { desktopId: id, generation: 1 })
  expect(await ofDesktop(stack, id), 'another generation, another host').toEqual(silent)
  await stack.restartAgent()
  const later = await waitFor('the next proof', async () => {
    const row = await ofDesktop(stack, id)
    return row!.awake_seconds > silent!.awake_seconds && row
  })
  expect(await ledgerOf(stack, id)).toMatchObject([{ open: true }])
  expect(later!.awake_seconds).toBeGreaterThan(silent!.awake_seconds)
})

test('a desktop that died with its silent host is not billed for the silence, also where it is destroyed in it', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  await waitFor('a proof of life', async () => ((await ofDesktop(stack, id))?.awake_seconds ?? 0) > 0)
  await stack.killAgent()
  const before = await ofDesktop(stack, id)
  expect((await stack.ask(id, 'destroy')).result).toMatchObject({ cleanup: 'deferred' })
  expect(await ofDesktop(stack, id)).toEqual(before)
  expect(await ledgerOf(stack, id)).toMatchObject([{ kind: 'awake', open: false }])
  await stack.restartAgent()
  await waitFor('the cleanup', async () => !(await stack.observed(id)))
  expect(await ofDesktop(stack, id)).toEqual(before)
})

test('what is counted is clipped to the range, on either side and on both', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const { id } = await stack.desktop('created', { tier: 'large', billing_mode: 'monthly' })
  await book(stack, id, 'awake', 1_000, 2_000.5)
  await book(stack, id, 'hibernated', 3_000, 4_000)
  await book(stack, id, 'awake', 5_000, null, 5_010.25)
  const seconds = async (start: number, end: number) => {
    const row = await ofDesktop(stack, id, `?start=${start}&end=${end}`)
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
  await using stack = await Stack.start({ hosts: 0 })
  const { id } = await stack.desktop()
  const cut = fc.integer({ min: 0, max: 10_000_000 }).map((ms) => ms / 1_000)
  const cuts = fc.uniqueArray(cut, { minLength: 2, maxLength: 12 }).map((times) => times.sort((a, b) => a - b))
  await fc.assert(
    fc.asyncProperty(cuts, cut, cut, async (times, one, other) => {
      const [start, end] = [Math.min(one, other), Math.max(one, other)]
      await stack.database.rows('delete from usage_intervals')
      const expected = { awake: 0, hibernated: 0 }
      for (const [i, from] of times.slice(0, -1).entries()) {
        const kind = i % 2 === 0 ? 'awake' : 'hibernated'
        const to = times[i + 1]!
        await book(stack, id, kind, from, to)
        expected[kind] += Math.max(0, Math.round((Math.min(to, end) - Math.max(from, start)) * 1_000))
      }
      const { desktops, totals } = await usage(stack, `?start=${start}&end=${end}`)
      const [row = { awake_seconds: 0, hibernated_seconds: 0 }] = desktops
      expect(row.awake_seconds).toBe(expected.awake / 1_000)
      expect(row.hibernated_seconds).toBe(expected.hibernated / 1_000)
      expect(totals.map(({ awake_seconds }) => awake_seconds)).toEqual(desktops.map((one) => one.awake_seconds))
    }),
    { numRuns: 40 },
  )
})

test('without a range it is this month in UTC up to now, and the answer says so', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const before = Date.now() / 1_000
  const { start, end, desktops, totals } = await usage(stack)
  const month = new Date(start * 1_000)
  expect([month.getUTCDate(), month.getTime() % 86_400_000]).toEqual([1, 0])
  expect(end).toBeGreaterThanOrEqual(before)
  expect(end).toBeLessThanOrEqual(Date.now() / 1_000)
  expect([desktops, totals]).toEqual([[], []])
})

test('another organisation sees nothing of it', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const { id } = await stack.desktop()
  await book(stack, id, 'awake', 1_000, 2_000)
  const { key } = await stack.otherOrg
  expect(await usage(stack, '?start=0', key)).toMatchObject({ start: 0, desktops: [], totals: [] })
})

test('400 names what is malformed, out of range, repeated or the wrong way round', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const wrong = {
    start: ['start=x', 'start=0x10', 'start=', 'start=1&start=2', 'start=5&end=4', 'start=99999999999'],
    end: ['end=1e400', 'end=Infinity', 'end=-1', 'end=253402300800', 'end=4'],
  }
  for (const [field, queries] of Object.entries(wrong)) {
    for (const query of queries) {
      const answer = await stack.api('GET', `/v1/usage?${query}`)
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
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const { usage: ledger } = stack.replica.parts
  await waitFor('a heartbeat with the desktop', async () => ((await ofDesktop(stack, id))?.awake_seconds ?? 0) > 0)
  await ledger.compare()
  await ledger.compare()
  expect(stack.chronicle.find(/the ledger/)).toEqual([])
  stack.chronicle.foresee(/that the ledger does not count/)
  await stack.database.rows('delete from usage_intervals')
  await ledger.compare()
  expect(stack.chronicle.find(/does not count/)).toEqual([])
  await ledger.compare()
  expect(stack.chronicle.find(/does not count/)).toMatchObject([{ desktop: id, generation: 1, host: stack.host.id }])
})

test('neither a heartbeat nor a question ever reads the whole ledger', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const { id } = await stack.desktop()
  await stack.database.rows(
    `insert into usage_intervals (desktop_id, org_id, tier, billing_mode, kind, generation, period, alive_until)
     select d.id, d.org_id, d.tier, d.billing_mode, 'awake', n,
       tstzrange(to_timestamp(n * 10), to_timestamp(n * 10 + 5)), to_timestamp(n * 10)
     from desktops d, generate_series(1, 3000) n where d.id = $1`,
    [id],
  )
  await stack.database.rows('analyze usage_intervals')
  const plan = async (where: string) => {
    const rows = await stack.database.rows<{ 'QUERY PLAN': string }>(
      `explain select * from usage_intervals where ${where}`,
    )
    return rows.map((row) => row['QUERY PLAN']).join('\n')
  }
  const range = 'tstzrange(to_timestamp(100), to_timestamp(200))'
  expect(await plan(`org_id = '${stack.org.id}' and period && ${range}`)).not.toContain('Seq Scan')
  expect(await plan(`host_id = '${id}' and kind = 'awake' and upper_inf(period)`)).toContain('usage_intervals_awake')
})
