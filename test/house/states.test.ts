import { type DesktopState, desktopStates, type OperationKind, operationKinds } from '@dormouse/contract'
import { permits } from '@dormouse/control-plane/desktops/states.ts'
import { expect, test } from 'vitest'
import { House } from '../house.ts'
import { waitFor } from '../wait-for.ts'

/** The table of the contract, by hand: the code's own table is compared with it. */
const legal: Record<OperationKind, DesktopState[]> = {
  wake: ['created', 'hibernated', 'stopped'],
  hibernate: ['awake'],
  destroy: ['created', 'waking', 'awake', 'hibernating', 'hibernated', 'stopped', 'failed'],
}

test('the table of states is the one of the contract', () => {
  for (const kind of operationKinds) {
    expect(desktopStates.filter((state) => permits(kind, state)).sort(), kind).toEqual(legal[kind].toSorted())
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
  'in state "%s", what the table forbids is 409 that names the state, and changes nothing',
  async (state) => {
    await using house = await House.start()
    const { id, release } = await bring(house, state)
    const before = await house.see(id)
    expect(before.state).toBe(state)
    for (const kind of operationKinds.filter((kind) => !legal[kind].includes(state))) {
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
