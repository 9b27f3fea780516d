// Guarantee: a restored guest that will not answer is given up early, and one that is slow, stopped from outside or asleep is not.
import { newId, Refusal } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { RestoredGuest } from './ready.ts'

const id = newId()

interface Given {
  /** The share of a processor's time that it wants. */
  share?: number | undefined
  frozen?: boolean
  wake?: () => Promise<void>
}

/** After how many seconds it is given up, of at most two minutes; undefined if it is not. */
async function givenUpAfter({ share, frozen = false, wake = async () => undefined }: Given) {
  let seconds = 0
  const guest = new RestoredGuest(
    {
      driver: {
        guestSleep: { isAsleep: async () => false, wake },
        usage: async () =>
          new Map([[id, { processorMs: share === undefined ? undefined : seconds * 1_000 * share, networkBytes: 0 }]]),
        frozen: () => frozen,
      },
    },
    id,
    () => seconds * 1_000,
  )
  for (; seconds < 120; seconds++) {
    try {
      await guest.look()
    } catch (error) {
      expect(error).toMatchObject({ code: 'guest_silent' })
      return seconds
    }
  }
  return undefined
}

test.each([
  ['an idle guest', { share: 0.05 }, 10],
  ['a guest that spins', { share: 1 }, 40],
  ['a guest that is slow', { share: 0.32 }, undefined],
  ['a guest whose process is stopped', { share: 0, frozen: true }, undefined],
  ['a guest of which nothing is known', {}, undefined],
] as const)('%s', async (_, given, after) => {
  expect(await givenUpAfter(given)).toBe(after)
})

test('it is woken each time, and a hypervisor that cannot does not fail it', async () => {
  let woken = 0
  const wake = async () => {
    woken++
    throw new Refusal('hypervisor_failed')
  }
  expect(await givenUpAfter({ share: 0, wake })).toBe(10)
  expect(woken).toBe(11)
})
