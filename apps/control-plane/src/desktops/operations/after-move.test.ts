import { Refusal } from '@dormouse/contract'
import { expect, test } from 'vitest'
import type { Links } from '../../agents/links.ts'
import type { Leadership } from '../../leadership/leadership.ts'
import type { StepContext } from '../../operations/definition.ts'
import { afterMove } from './after-move.ts'

/** A leader in whose database nothing is deferred. */
const leadership = {
  transaction: (work: (tx: unknown) => unknown) => work({ query: async () => ({ rows: [] }) }),
} as unknown as Leadership
const context = { operation: { desktopId: 'a' } } as StepContext

/** Sends a command that the host refuses with this code, this many times. */
async function ask(code: 'moving' | 'hypervisor_failed', times: number) {
  let asked = 0
  const answer = afterMove({ leadership, links: {} as Links }, context, 'host', async () => {
    if (asked++ < times) throw new Refusal(code)
    return 'done'
  })
  return { answer: await answer.catch((error: unknown) => error), asked }
}

test('a move that the deferred commands ended between the refusal and the look is no reason to fail', async () => {
  expect(await ask('moving', 1)).toMatchObject({ answer: 'done', asked: 2 })
})

test('a host that still refuses, or refuses for another reason, is believed', async () => {
  expect(await ask('moving', 2)).toMatchObject({ answer: { code: 'moving' }, asked: 2 })
  expect(await ask('hypervisor_failed', 1)).toMatchObject({ answer: { code: 'hypervisor_failed' }, asked: 1 })
})
