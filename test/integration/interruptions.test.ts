// Guarantee: whatever of the stack goes away while an operation runs, the operation settles, and its state is the truth.
import { newId, type RequestKind } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'

const slow = { wake: 'restorePaused', hibernate: 'save', destroy: 'removeDisk' } as const
const kinds = ['wake', 'hibernate', 'destroy'] as const

/** A desktop of which that may be asked. */
async function before(stack: Stack, kind: RequestKind): Promise<string> {
  const { id } = await stack.desktop('awake')
  await stack.remember(id, 'kept')
  if (kind === 'wake') await stack.ask(id, 'hibernate')
  return id
}

/** A desktop whose operation of that kind is at work on its host. */
async function midway(
  stack: Stack,
  kind: RequestKind,
  desktop?: string,
): Promise<{ id: string; operation: string; release: () => void }> {
  const id = desktop ?? (await before(stack, kind))
  const release = stack.host.driver.faults.hang(slow[kind])
  const operation = await stack.begin(id, kind)
  await waitFor(`the host to be asked for the ${kind}`, async () => (await stack.host.commandsOf(id)).includes(kind))
  return { id, operation: operation.id, release }
}

/** The operation has settled well, and the desktop is what it says. */
async function wentOn(stack: Stack, kind: RequestKind, id: string, operation: string): Promise<void> {
  expect(await stack.settled(operation)).toMatchObject({ state: 'succeeded', kind })
  await stack.settle()
  const truth = { wake: 'awake', hibernate: 'hibernated', destroy: 'destroyed' }[kind]
  expect((await stack.see(id)).state).toBe(truth)
  await stack.shows(id, { wake: 'running', hibernate: 'saved', destroy: 'nothing' }[kind])
  if (kind === 'destroy') return
  if (kind === 'hibernate') expect((await stack.ask(id, 'wake')).result?.resumed_from).toBe('memory')
  expect(await stack.recall(id)).toEqual({ memory: 'kept', disk: 'kept' })
}

test.each(kinds)('a control plane that is stopped and started while a %s runs goes on with it', async (kind) => {
  await using stack = await Stack.start()
  const { id, operation, release } = await midway(stack, kind)
  const stopping = stack.restartControlPlane()
  release()
  await stopping
  await wentOn(stack, kind, id, operation)
})

test.each(kinds)('an agent that is killed while a %s runs, and started again, lets it end well', async (kind) => {
  await using stack = await Stack.start()
  const { id, operation } = await midway(stack, kind)
  await stack.killAgent()
  await stack.restartAgent()
  if (kind === 'destroy') {
    await stack.settled(operation)
    await waitFor('the remains to go', async () => (await stack.inventory()).length === 0)
    return
  }
  await wentOn(stack, kind, id, operation)
})

test.each(kinds)(
  'a link that is cut while a %s runs is dialled again, and the work is joined, not done twice',
  async (kind) => {
    await using stack = await Stack.start({ controlPlane: { destroyGraceMs: 5_000 } })
    const { id, operation, release } = await midway(stack, kind)
    await stack.replica.parts.links.disconnect(stack.host.id, 'cut by the test')
    await stack.linked(stack.host)
    release()
    await wentOn(stack, kind, id, operation)
  },
)

test.each(['wake', 'hibernate'] as const)(
  'a host that stays away beyond the deadline of a %s leaves it failed, and its truth is found on rejoin',
  async (kind) => {
    await using stack = await Stack.start()
    const id = await before(stack, kind)
    const failed = await stack.withDeadline(1_500, async () => {
      const { operation } = await midway(stack, kind, id)
      await stack.killAgent()
      return stack.settled(operation)
    })
    expect(failed.state).toBe('failed')
    expect(failed.error).toMatch(/host/)
    await stack.restartAgent()
    const state = kind === 'wake' ? 'hibernated' : 'awake'
    await stack.shows(id, kind === 'wake' ? 'saved' : 'running')
    expect((await stack.becomes(id, state)).state).toBe(state)
    if (kind === 'wake') expect((await stack.ask(id, 'wake')).result?.resumed_from).toBe('memory')
    expect(await stack.recall(id)).toEqual({ memory: 'kept', disk: 'kept' })
  },
)

test('an operation that nobody led until its deadline was over is asked for once more: what its host had done counts', async () => {
  await using stack = await Stack.start()
  const { id, operation, release } = await midway(stack, 'hibernate')
  await stack.replica.stop()
  release()
  await waitFor('the save', async () => (await stack.host.holds(id)).domain === 'absent')
  await stack.host.settled()
  await stack.killAgent()
  await stack.database.rows(`update operations set deadline_at = now() - interval '1 minute'`)
  await stack.replica.start()
  const tries = () => stack.failpoints.hits.filter((hit) => hit === 'hibernate.save.before').length
  await waitFor('it to be asked for while its host is still away', () => tries() === 2)
  await stack.restartAgent()
  await wentOn(stack, 'hibernate', id, operation)
})

test('the word of a host that an operation is getting on counts for its own operations alone', async () => {
  // What a host says puts the deadline off by half a minute here.
  await using stack = await Stack.start({ controlPlane: { wakeDeadlineMs: 600_000, hibernateDeadlineMs: 300 } })
  const { id, operation, release } = await midway(stack, 'hibernate')
  const { engine } = stack.replica.parts
  await waitFor('its end', async () => {
    engine.progress(newId(), operation)
    return (await stack.operation(operation)).state === 'failed'
  })
  release()
  await stack.shows(id, 'saved')
  await stack.replica.parts.recovery.compare(stack.host.id)
  await stack.becomes(id, 'hibernated')
})

test('a wake of a desktop whose host is out of reach fails at once with that text, and works when the host is back', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('hibernated')
  await stack.killAgent()
  await stack.database.rows(`update hosts set last_heartbeat_at = now() - interval '1 minute'`)
  const answer = await stack.api('POST', `/v1/desktops/${id}/wake?wait=true`)
  expect([answer.status, answer.json.code]).toEqual([409, 'operation_failed'])
  expect(answer.json.detail).toMatch(/^the desktop’s host is unreachable/)
  expect((await stack.see(id)).state).toBe('hibernated')
  await stack.restartAgent()
  expect((await stack.ask(id, 'wake')).result?.resumed_from).toBe('memory')
})

test('a wake waits for a host that was there a moment ago, also where the desktop is bound to none yet', async () => {
  await using stack = await Stack.start()
  const saved = (await stack.desktop('hibernated')).id
  const fresh = (await stack.desktop('created')).id
  await stack.killAgent()
  const wakes = [await stack.begin(saved, 'wake'), await stack.begin(fresh, 'wake')]
  await waitFor(
    'both to be tried in vain',
    () => stack.failpoints.hits.filter((hit) => hit === 'wake.place.before').length >= 2,
  )
  await stack.restartAgent()
  for (const wake of wakes) expect((await stack.settled(wake.id)).state).toBe('succeeded')
})

test('a wake waits for a hypervisor that was there a moment ago, also where the desktop is bound to none yet', async () => {
  await using stack = await Stack.start()
  const saved = (await stack.desktop('hibernated')).id
  const fresh = (await stack.desktop('created')).id
  stack.host.driver.faults.down = true
  await stack.restartAgent()
  const wakes = [await stack.begin(saved, 'wake'), await stack.begin(fresh, 'wake')]
  await waitFor(
    'both to be tried in vain',
    () => stack.failpoints.hits.filter((hit) => hit === 'wake.place.before').length >= 2,
  )
  stack.host.driver.faults.down = false
  await stack.restartAgent()
  for (const wake of wakes) expect((await stack.settled(wake.id)).state).toBe('succeeded')
})

test('restarts of agent and control plane leave what is awake awake, with its memory', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  await stack.remember(id, 'on')
  await stack.restartAgent()
  await stack.restartControlPlane()
  expect(await stack.see(id)).toMatchObject({ state: 'awake', generation: 1 })
  expect(await stack.recall(id)).toEqual({ memory: 'on', disk: 'on' })
})

test('a desktop that dies by itself is stopped within a moment, holds no memory of its host, and wakes from its disk', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  await stack.remember(id, 'gone')
  stack.host.driver.die(id)
  await stack.becomes(id, 'stopped')
  expect(await stack.held(id)).toBe(0)
  expect((await stack.ask(id, 'wake')).result?.resumed_from).toBe('disk')
  expect(await stack.recall(id)).toEqual({ memory: '', disk: 'gone' })
})

test('a desktop that died while its agent was away is stopped when the agent is back', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const lives = (await stack.desktop('awake')).id
  await stack.killAgent()
  stack.host.driver.die(id)
  expect((await stack.see(id)).state).toBe('awake')
  await stack.restartAgent()
  await stack.becomes(id, 'stopped')
  expect((await stack.see(lives)).state).toBe('awake')
})

test('twenty desktops, each asked something at once while agent and leader change, all end as they say', async () => {
  await using stack = await Stack.start({ hosts: 2 })
  for (const { driver } of stack.hosts) {
    Object.assign(driver.faults.latencyMs, { save: 30, restorePaused: 30, startCold: 30 })
  }
  const from = ['created', 'awake', 'hibernated'] as const
  const desktops = await Promise.all(Array.from({ length: 20 }, (_, i) => stack.desktop(from[i % 3])))
  const kindOf = { created: 'wake', awake: 'hibernate', hibernated: 'wake' } as const
  const operations = await Promise.all(
    desktops.map(({ id, state }) => stack.begin(id, kindOf[state as keyof typeof kindOf])),
  )
  await stack.endTerm()
  await stack.killAgent(1)
  await stack.endTerm()
  await stack.restartAgent(1)
  for (const operation of operations) expect((await stack.settled(operation.id)).state).toBe('succeeded')
  await stack.settle()
  for (const { id } of desktops) {
    const { state } = await stack.see(id)
    await stack.shows(id, state === 'awake' ? 'running' : 'saved', await stack.hostOf(id))
  }
})
