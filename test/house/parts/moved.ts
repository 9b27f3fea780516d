// What tests of moves share: a desktop that remembers something, and whether it is whole on one host only.
import { type MoveMode, newId, type OperationJson } from '@dormouse/contract'
import { expect } from 'vitest'
import type { House } from '../../house.ts'
import type { Host } from './host.ts'

/** Any free port: the tests run beside each other. */
export const movingAgent = { moveAddress: { host: '127.0.0.1', port: 0 } }
/** The steps of a move up to its decision, and those behind it. */
export const before = ['place', 'begin', 'send', 'arrive'] as const
export const behind = ['decide', 'settle', 'release'] as const
export const kinds = ['awake', 'hibernated', 'stopped'] as const
export type Kind = (typeof kinds)[number]

export async function desktopIn(house: House, state: Kind): Promise<string> {
  const { id } = await house.desktop('awake')
  await house.remember(id, 'kept')
  if (state === 'hibernated') await house.ask(id, 'hibernate')
  if (state === 'stopped') {
    const host = await house.hostOf(id)
    host.driver.die(id)
    await house.becomes(id, 'stopped')
  }
  return id
}

export const beginMove = (house: House, id: string, mode: MoveMode = 'live') =>
  house.replica.parts.moves.begin(id, { to: null, mode, requestedBy: 'operator', requestId: newId() })

export const moved = async (house: House, id: string, mode?: MoveMode): Promise<OperationJson> =>
  house.settled((await beginMove(house, id, mode)).id)

export const other = (house: House, host: Host): Host => house.hosts.find((one) => one !== host)!

/** It is whole on that host and nowhere else, and wakes there with all that it had. */
export async function expectWholeOn(house: House, host: Host, id: string, state: Kind): Promise<void> {
  await house.settle()
  expect(await house.see(id)).toMatchObject({ state, host_id: host.id })
  expect(await host.holds(id)).toMatchObject({ disk: true })
  await house.shows(id, 'nothing', other(house, host))
  expect(await house.database.rows('select 1 from arrivals')).toEqual([])
  const [held] = await house.database.rows<{ host: string; memory: number }>(
    'select host_id as host, memory_mib as memory from reservations where desktop_id = $1',
    [id],
  )
  expect(held).toEqual({ host: host.id, memory: state === 'awake' ? 512 : 0 })
  if (state !== 'awake') await house.ask(id, 'wake')
  expect(await house.recall(id)).toEqual({ memory: state === 'stopped' ? '' : 'kept', disk: 'kept' })
}
