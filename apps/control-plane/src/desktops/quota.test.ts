// Guarantee: however creates in flight end, an organisation gets exactly as many desktops as its limit allows.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { Quota } from './quota.ts'

const turn = () => new Promise((resolve) => setImmediate(resolve))
const turns = async (count: number) => {
  for (let at = 0; at < count; at++) await turn()
}

/** One create: it arrives, commits and is answered after this many turns of the event loop each. */
const fate = fc.record({
  arrives: fc.nat(8),
  commits: fc.nat(5),
  answers: fc.nat(5),
  end: fc.constantFrom('made', 'replayed', 'failed'),
})

test('with creates that succeed, fail and are replayed in any order, the limit is kept exactly', async () => {
  await fc.assert(
    fc.asyncProperty(fc.nat(6), fc.array(fate, { maxLength: 25 }), fc.nat(4), async (limit, fates, readTakes) => {
      let desktops = 0
      const read = async () => {
        await turns(readTakes)
        const seen = Math.min(desktops, limit)
        await turns(readTakes)
        return { limit, desktops: seen, hasQuotas: false }
      }
      const quota = new Quota({ leadership: { require: () => undefined, term: undefined }, read, trustMs: 60_000 })
      const one = async ({ arrives, commits, answers, end }: (typeof fates)[number]) => {
        await turns(arrives)
        const make = async () => {
          await turns(commits)
          if (end === 'made') desktops++
          expect(desktops).toBeLessThanOrEqual(limit)
          await turns(answers)
          if (end === 'failed') throw new Error('it failed')
          return { made: end === 'made', full: false }
        }
        const full = async () => ({ made: false, full: true })
        const came = await quota.within('org', make, full).catch(() => ({ full: false }))
        return { end, full: came.full }
      }
      const all = await Promise.all(fates.map(one))
      const wanted = fates.filter(({ end }) => end === 'made').length
      expect(desktops).toBe(Math.min(wanted, limit))
      if (wanted <= limit && limit > 0 && fates.length <= limit) expect(all.some(({ full }) => full)).toBe(false)
      // A freed place can be taken again.
      if (desktops > 0) {
        desktops--
        quota.freed('org')
        const again = await quota.within(
          'org',
          async () => ({ made: true as boolean }),
          async () => ({ made: false }),
        )
        expect(again.made).toBe(true)
      }
    }),
    { numRuns: 500 },
  )
})

test('each term counts from the database again: another leader may have made desktops meanwhile', async () => {
  const term = { epoch: 1, signal: new AbortController().signal }
  let desktops = 0
  const leadership = { require: () => undefined, term }
  const quota = new Quota({ leadership, read: async () => ({ limit: 5, desktops, hasQuotas: false }), trustMs: 60_000 })
  const create = () =>
    quota.within(
      'org',
      async () => ({ made: ++desktops > 0 }),
      async () => ({ made: false }),
    )
  expect(await create()).toEqual({ made: true })
  desktops = 5
  term.epoch = 3
  expect(await create()).toEqual({ made: false })
})

test('a count that takes longer than it is trusted is still used', async () => {
  let reads = 0
  const read = async () => {
    const ends = performance.now() + 5
    while (performance.now() < ends) await turn()
    if (++reads > 3) throw new Error('the count is read again and again')
    return { limit: 2, desktops: 0, hasQuotas: false }
  }
  const quota = new Quota({ leadership: { require: () => undefined, term: undefined }, read, trustMs: 1 })
  const answer = await quota.within(
    'org',
    async () => ({ made: true as boolean }),
    async () => ({ made: false }),
  )
  expect({ answer, reads }).toEqual({ answer: { made: true }, reads: 1 })
})
