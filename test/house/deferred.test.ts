// Guarantee: what was put off for one host is carried out whatever another host does.
import type { DesktopJson } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { House } from '../house.ts'
import { until } from './until.ts'

/** Writes down that the destroyed desktop is to be removed once more, as after an answer that was lost. */
async function putOff(house: House, { id }: DesktopJson, hostId: string): Promise<void> {
  await house.database.rows(
    `insert into deferred_commands (desktop_id, host_id, command, generation, turn, operation_id)
     select d.id, $2, 'desktop.ensureDestroyed', d.generation, d.turn + 1, o.id
       from desktops d join operations o on o.desktop_id = d.id where d.id = $1 order by o.created_at desc limit 1`,
    [id, hostId],
  )
}

const leftOn = async (house: House, hostId: string): Promise<number> =>
  (await house.database.rows('select 1 from deferred_commands where host_id = $1', [hostId])).length

test('a host that takes a command and never answers delays no other host, now or in the next round', async () => {
  await using house = await House.start({ hosts: 2 })
  const [hanging, working] = house.hosts.map(({ id }) => id) as [string, string]
  const gone = await Promise.all(Array.from({ length: 3 }, () => house.desktop('destroyed')))
  const { recovery } = house.replica.parts
  const release = house.hosts[0]!.driver.faults.hang('removeDisk')
  await putOff(house, gone[0]!, hanging)
  await recovery.carryOutDeferred()
  await until('the host to hang', () => house.hosts[0]!.driver.faults.counts.removeDisk)
  for (const desktop of gone.slice(1)) {
    await putOff(house, desktop, working)
    await recovery.carryOutDeferred()
    await until('it to be carried out', async () => (await leftOn(house, working)) === 0)
  }
  expect(await leftOn(house, hanging)).toBe(1)
  release()
  await until('the first to be carried out, too', async () => (await leftOn(house, hanging)) === 0)
})
