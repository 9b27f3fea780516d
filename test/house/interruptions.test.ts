// Guarantee: whatever of the house goes away while an operation runs, the operation settles, and its state is the truth.
import { newId, type RequestKind } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { House } from '../house.ts'
import { waitFor } from '../wait-for.ts'

const slow = { wake: 'restorePaused', hibernate: 'save', destroy: 'removeDisk' } as const
const kinds = ['wake', 'hibernate', 'destroy'] as const

/** A desktop of which that may be asked. */
async function before(house: House, kind: RequestKind): Promise<string> {
  const { id } = await house.desktop('awake')
  await house.remember(id, 'kept')
  if (kind === 'wake') await house.ask(id, 'hibernate')
  return id
}

/** A desktop whose operation of that kind is at work on its host. */
async function midway(
  house: House,
  kind: RequestKind,
  desktop?: string,
): Promise<{ id: string; operation: string; release: () => void }> {
  const id = desktop ?? (await before(house, kind))
  const release = house.host.driver.faults.hang(slow[kind])
  const operation = await house.begin(id, kind)
  await waitFor(`the host to be asked for the ${kind}`, async () => (await house.host.commandsOf(id)).includes(kind))
  return { id, operation: operation.id, release }
}

/** The operation has settled well, and the desktop is what it says. */
async function wentOn(house: House, kind: RequestKind, id: string, operation: string): Promise<void> {
  expect(await house.settled(operation)).toMatchObject({ state: 'succeeded', kind })
  await house.settle()
  const truth = { wake: 'awake', hibernate: 'hibernated', destroy: 'destroyed' }[kind]
  expect((await house.see(id)).state).toBe(truth)
  await house.shows(id, { wake: 'running', hibernate: 'saved', destroy: 'nothing' }[kind])
  if (kind === 'destroy') return
  if (kind === 'hibernate') expect((await house.ask(id, 'wake')).result?.resumed_from).toBe('memory')
  expect(await house.recall(id)).toEqual({ memory: 'kept', disk: 'kept' })
}

test.each(kinds)('a control plane that is stopped and started while a %s runs goes on with it', async (kind) => {
  await using house = await House.start()
  const { id, operation, release } = await midway(house, kind)
  const stopping = house.restartControlPlane()
  release()
  await stopping
  await wentOn(house, kind, id, operation)
})

test.each(kinds)('an agent that is killed while a %s runs, and started again, lets it end well', async (kind) => {
  await using house = await House.start()
  const { id, operation } = await midway(house, kind)
  await house.killAgent()
  await house.restartAgent()
  if (kind === 'destroy') {
    await house.settled(operation)
    await waitFor('the remains to go', async () => (await house.inventory()).length === 0)
    return
  }
  await wentOn(house, kind, id, operation)
})

test.each(kinds)(
  'a link that is cut while a %s runs is dialled again, and the work is joined, not done twice',
  async (kind) => {
    await using house = await House.start({ controlPlane: { destroyGraceMs: 5_000 } })
    const { id, operation, release } = await midway(house, kind)
    await house.replica.parts.links.disconnect(house.host.id, 'cut by the test')
    await house.linked(house.host)
    release()
    await wentOn(house, kind, id, operation)
  },
)

test.each(['wake', 'hibernate'] as const)(
  'a host that stays away beyond the deadline of a %s leaves it failed, and its truth is found on rejoin',
  async (kind) => {
    await using house = await House.start()
    const id = await before(house, kind)
    const failed = await house.withDeadline(1_500, async () => {
      const { operation } = await midway(house, kind, id)
      await house.killAgent()
      return house.settled(operation)
    })
    expect(failed.state).toBe('failed')
    expect(failed.error).toMatch(/host/)
    await house.restartAgent()
    const state = kind === 'wake' ? 'hibernated' : 'awake'
    await house.shows(id, kind === 'wake' ? 'saved' : 'running')
    expect((await house.becomes(id, state)).state).toBe(state)
    if (kind === 'wake') expect((await house.ask(id, 'wake')).result?.resumed_from).toBe('memory')
    expect(await house.recall(id)).toEqual({ memory: 'kept', disk: 'kept' })
  },
)

test('an operation that nobody led until its deadline was over is asked for once more: what its host had done counts', async () => {
  await using house = await House.start()
  const { id, operation, release } = await midway(house, 'hibernate')
  await house.replica.stop()
  release()
  await waitFor('the save', async () => (await house.host.holds(id)).domain === 'absent')
  await house.host.settled()
  await house.killAgent()
  await house.database.rows(`update operations set deadline_at = now() - interval '1 minute'`)
  await house.replica.start()
  const tries = () => house.failpoints.hits.filter((hit) => hit === 'hibernate.save.before').length
  await waitFor('it to be asked for while its host is still away', () => tries() === 2)
  await house.restartAgent()
  await wentOn(house, 'hibernate', id, operation)
})

test('the word of a host that an operation is getting on counts for its own operations alone', async () => {
  // What a host says puts the deadline off by half a minute here.
  await using house = await House.start({ controlPlane: { wakeDeadlineMs: 600_000, hibernateDeadlineMs: 300 } })
  const { id, operation, release } = await midway(house, 'hibernate')
  const { engine } = house.replica.parts
  await waitFor('its end', async () => {
    engine.progress(newId(), operation)
    return (await house.operation(operation)).state === 'failed'
  })
  release()
  await house.shows(id, 'saved')
  await house.replica.parts.recovery.compare(house.host.id)
  await house.becomes(id, 'hibernated')
})

test('a wake of a desktop whose host is out of reach fails at once with that text, and works when the host is back', async () => {
  await using house = await House.start()
  const { id } = await house.desktop('hibernated')
  await house.killAgent()
  await house.database.rows(`update hosts set last_heartbeat_at = now() - interval '1 minute'`)
  const answer = await house.api('POST', `/v1/desktops/${id}/wake?wait=true`)
  expect([answer.status, answer.json.code]).toEqual([409, 'operation_failed'])
  expect(answer.json.detail).toMatch(/^the desktop’s host is unreachable/)
  expect((await house.see(id)).state).toBe('hibernated')
  await house.restartAgent()
  expect((await house.ask(id, 'wake')).result?.resumed_from).toBe('memory')
})

test('a wake waits for a host that was there a moment ago, also where the desktop is bound to none yet', async () => {
  await using house = await House.start()
  const saved = (await house.desktop('hibernated')).id
  const fresh = (await house.desktop('created')).id
  await house.killAgent()
  const wakes = [await house.begin(saved, 'wake'), await house.begin(fresh, 'wake')]
  await waitFor(
    'both to be tried in vain',
    () => house.failpoints.hits.filter((hit) => hit === 'wake.place.before').length >= 2,
  )
  await house.restartAgent()
  for (const wake of wakes) expect((await house.settled(wake.id)).state).toBe('succeeded')
})

test('a wake waits for a hypervisor that was there a moment ago, also where the desktop is bound to none yet', async () => {
  await using house = await House.start()
  const saved = (await house.desktop('hibernated')).id
  const fresh = (await house.desktop('created')).id
  house.host.driver.faults.down = true
  await house.restartAgent()
  const wakes = [await house.begin(saved, 'wake'), await house.begin(fresh, 'wake')]
  await waitFor(
    'both to be tried in vain',
    () => house.failpoints.hits.filter((hit) => hit === 'wake.place.before').length >= 2,
  )
  house.host.driver.faults.down = false
  await house.restartAgent()
  for (const wake of wakes) expect((await house.settled(wake.id)).state).toBe('succeeded')
})

test('restarts of agent and control plane leave what is awake awake, with its memory', async () => {
  await using house = await House.start()
  const { id } = await house.desktop('awake')
  await house.remember(id, 'on')
  await house.restartAgent()
  await house.restartControlPlane()
  expect(await house.see(id)).toMatchObject({ state: 'awake', generation: 1 })
  expect(await house.recall(id)).toEqual({ memory: 'on', disk: 'on' })
})

test('a desktop that dies by itself is stopped within a moment, holds no memory of its host, and wakes from its disk', async () => {
  await using house = await House.start()
  const { id } = await house.desktop('awake')
  await house.remember(id, 'gone')
  house.host.driver.die(id)
  await house.becomes(id, 'stopped')
  expect(await house.held(id)).toBe(0)
  expect((await house.ask(id, 'wake')).result?.resumed_from).toBe('disk')
  expect(await house.recall(id)).toEqual({ memory: '', disk: 'gone' })
})

test('a desktop that died while its agent was away is stopped when the agent is back', async () => {
  await using house = await House.start()
  const { id } = await house.desktop('awake')
  const lives = (await house.desktop('awake')).id
  await house.killAgent()
  house.host.driver.die(id)
  expect((await house.see(id)).state).toBe('awake')
  await house.restartAgent()
  await house.becomes(id, 'stopped')
  expect((await house.see(lives)).state).toBe('awake')
})

test('twenty desktops, each asked something at once while agent and leader change, all end as they say', async () => {
  await using house = await House.start({ hosts: 2 })
  for (const { driver } of house.hosts) {
    Object.assign(driver.faults.latencyMs, { save: 30, restorePaused: 30, startCold: 30 })
  }
  const from = ['created', 'awake', 'hibernated'] as const
  const desktops = await Promise.all(Array.from({ length: 20 }, (_, i) => house.desktop(from[i % 3])))
  const kindOf = { created: 'wake', awake: 'hibernate', hibernated: 'wake' } as const
  const operations = await Promise.all(
    desktops.map(({ id, state }) => house.begin(id, kindOf[state as keyof typeof kindOf])),
  )
  await house.endTerm()
  await house.killAgent(1)
  await house.endTerm()
  await house.restartAgent(1)
  for (const operation of operations) expect((await house.settled(operation.id)).state).toBe('succeeded')
  await house.settle()
  for (const { id } of desktops) {
    const { state } = await house.see(id)
    await house.shows(id, state === 'awake' ? 'running' : 'saved', await house.hostOf(id))
  }
})
