// What tests of moves share: a desktop that remembers something, and whether it is whole on one host only.
import { type MoveMode, newId, type OperationJson } from '@dormouse/contract'
import { expect } from 'vitest'
import type { Stack } from '../../stack.ts'
import type { Host } from './host.ts'

/** Any free port: the tests run beside each other. */
export const movingAgent = { moveAddress: { host: '127.0.0.1', port: 0 } }
/** The steps of a move up to its decision, and those behind it. */
export const before = ['place', 'begin', 'send', 'arrive'] as const
export const behind = ['decide', 'settle', 'release'] as const
export const kinds = ['awake', 'hibernated', 'stopped'] as const
export type Kind = (typeof kinds)[number]

export async function desktopIn(stack: Stack, state: Kind): Promise<string> {
  const { id } = await stack.desktop('awake')
  await stack.remember(id, 'kept')
  if (state === 'hibernated') await stack.ask(id, 'hibernate')
  if (state === 'stopped') {
    const host = await stack.hostOf(id)
    host.driver.die(id)
    await stack.becomes(id, 'stopped')
  }
  return id
}

export const beginMove = (stack: Stack, id: string, mode: MoveMode = 'live') =>
  stack.replica.parts.moves.begin(id, { to: null, mode, requestedBy: 'operator', requestId: newId() })

export const moved = async (stack: Stack, id: string, mode?: MoveMode): Promise<OperationJson> =>
  stack.settled((await beginMove(stack, id, mode)).id)

export const other = (stack: Stack, host: Host): Host => stack.hosts.find((one) => one !== host)!

/** It is whole on that host and nowhere else, and wakes there with all that it had. */
export async function expectWholeOn(stack: Stack, host: Host, id: string, state: Kind): Promise<void> {
  await stack.settle()
  expect(await stack.see(id)).toMatchObject({ state, host_id: host.id })
  expect(await host.holds(id)).toMatchObject({ disk: true })
  await stack.shows(id, 'nothing', other(stack, host))
  expect(await stack.database.rows('select 1 from arrivals')).toEqual([])
  const [held] = await stack.database.rows<{ host: string; memory: number }>(
    'select host_id as host, memory_mib as memory from reservations where desktop_id = $1',
    [id],
  )
  expect(held).toEqual({ host: host.id, memory: state === 'awake' ? 512 : 0 })
  if (state !== 'awake') await stack.ask(id, 'wake')
  expect(await stack.recall(id)).toEqual({ memory: state === 'stopped' ? '' : 'kept', disk: 'kept' })
}
