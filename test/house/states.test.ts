import { type DesktopState, desktopStates, type RequestKind, requestKinds } from '@dormouse/contract'
import { failAll, settle, unbindAll } from '@dormouse/control-plane/desktops/state-changes.ts'
import { isLegal, sourcesOf } from '@dormouse/control-plane/desktops/states.ts'
import { expect, test } from 'vitest'
import { House } from '../house.ts'
import { waitFor } from '../wait-for.ts'

/** The table of the contract, by hand: the code's own table is compared with it. */
const legal: Record<RequestKind, DesktopState[]> = {
  wake: ['created', 'hibernated', 'stopped'],
  hibernate: ['awake'],
  destroy: ['created', 'waking', 'awake', 'hibernating', 'hibernated', 'stopped', 'failed'],
}

test('the table of states is the one of the contract', () => {
  for (const kind of requestKinds) {
    expect(desktopStates.filter((state) => isLegal(kind, state)).sort(), kind).toEqual(legal[kind].toSorted())
  }
})

const reached = (house: House, failpoint: string) =>
  waitFor(`the host to reach ${failpoint}`, () => house.host.failpoints.hits.includes(failpoint))

/** Brings a desktop into each state that requests can meet; answers how to let a passing one go on. */
async function bring(house: House, state: DesktopState): Promise<{ id: string; release: () => void }> {
  const { faults } = house.host.driver
  if (state === 'waking') {
    const { id } = await house.desktop('created')
    const release = faults.hang('startCold')
    await house.begin(id, 'wake')
    await reached(house, 'wake.after-mark')
    return { id, release }
  }
  if (state === 'hibernating' || state === 'destroying') {
    const { id } = await house.desktop('awake')
    const release = faults.hang(state === 'hibernating' ? 'save' : 'removeDisk')
    await house.begin(id, state === 'hibernating' ? 'hibernate' : 'destroy')
    await reached(house, state === 'hibernating' ? 'hibernate.before-save' : 'destroy.after-kill')
    return { id, release }
  }
  if (state === 'failed') {
    const { id } = await house.desktop('hibernated')
    await house.database.rows(`update desktops set state = 'failed' where id = $1`, [id])
    return { id, release: () => undefined }
  }
  return { id: (await house.desktop(state)).id, release: () => undefined }
}

test.each(desktopStates)(
  'in state "%s", what the table illegalRequest is 409 that names the state, and changes nothing',
  async (state) => {
    await using house = await House.start()
    const { id, release } = await bring(house, state)
    const before = await house.see(id)
    expect(before.state).toBe(state)
    for (const kind of requestKinds.filter((kind) => !legal[kind].includes(state))) {
      const answer = await house.api('POST', `/v1/desktops/${id}/${kind}`)
      expect([kind, answer.status, answer.json.code]).toEqual([kind, 409, 'wrong_state'])
      expect(answer.json.detail).toContain(`the desktop is ${state}`)
    }
    if (state !== 'awake') {
      const exec = await house.exec(id, 'true')
      expect([exec.status, exec.json.code]).toEqual([409, 'not_awake'])
    }
    expect(await house.see(id)).toEqual(before)
    release()
    await house.settle()
  },
)

test('a desktop settles from the states of the table alone, and a refused settlement names the state and changes nothing', async () => {
  await using house = await House.start({ hosts: 0 })
  const { pool } = house.replica.parts
  const { id } = await house.desktop()
  const put = (state: DesktopState) => house.database.rows('update desktops set state = $2 where id = $1', [id, state])
  for (const by of [...requestKinds, 'correction'] as const) {
    for (const to of desktopStates.filter((state) => sourcesOf(by, state).length > 0)) {
      const allowed = sourcesOf(by, to)
      await put(allowed[0]!)
      await settle(pool, id, to, { by, operationId: null })
      expect((await house.see(id)).state).toBe(to)
      const other = desktopStates.find((state) => !allowed.includes(state))!
      await put(other)
      const before = await house.see(id)
      await expect(settle(pool, id, to, { by, operationId: null })).rejects.toMatchObject({
        name: 'StateMismatch',
        message: expect.stringContaining(`desktop ${id} is ${other}; a ${by} may make it ${to} from`),
      })
      expect(await house.see(id)).toEqual(before)
    }
  }
  await put('destroyed')
  const found = { name: 'StateMismatch', message: expect.stringContaining(`desktop ${id} is destroyed`) }
  await expect(failAll(pool, [id], { code: 'host_removed', provedUntil: null })).rejects.toMatchObject(found)
  await expect(unbindAll(pool, [id])).rejects.toMatchObject(found)
})

test('an operation that finds its desktop in another state leaves that state, and fails with it as its cause', async () => {
  await using house = await House.start()
  house.chronicle.foresee(/found an unexpected state|a success could not be stored/)
  const { id } = await house.desktop('hibernated')
  house.failpoints.set('wake.settle.before', async () => {
    await house.database.rows(`update desktops set state = 'stopped' where id = $1`, [id])
  })
  const { id: operationId } = await house.begin(id, 'wake')
  expect(await house.settled(operationId)).toMatchObject({ state: 'failed' })
  const [{ cause, error_code: code } = {}] = await house.database.rows(
    'select cause, error_code from operations where id = $1',
    [operationId],
  )
  expect([code, cause]).toEqual([
    'internal',
    expect.stringContaining(`desktop ${id} is stopped; a wake may make it awake`),
  ])
  expect((await house.see(id)).state).toBe('stopped')
  house.failpoints.set('wake.settle.before', undefined)
  await house.ask(id, 'wake', { discard_memory: true })
})

test.each(legal.destroy)('destroy is legal in state "%s" and ends with nothing on the host', async (state) => {
  await using house = await House.start()
  const { id, release } = await bring(house, state)
  const { result } = await house.ask(id, 'destroy')
  release()
  expect(result).toMatchObject({ desktop_state: 'destroyed', cleanup: 'done' })
  await house.settle()
  expect(await house.inventory()).toEqual([])
  expect(await house.held(id)).toBeUndefined()
})
