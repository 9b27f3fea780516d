import { type DesktopState, desktopStates, type RequestKind, requestKinds } from '@dormouse/contract'
import { failAll, settle, unbindAll } from '@dormouse/control-plane/desktops/state-changes.ts'
import { isLegal, sourcesOf } from '@dormouse/control-plane/desktops/states.ts'
import { expect, test } from 'vitest'
import { Stack } from '../stack.ts'
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

const reached = (stack: Stack, failpoint: string) =>
  waitFor(`the host to reach ${failpoint}`, () => stack.host.failpoints.hits.includes(failpoint))

/** Brings a desktop into each state that requests can meet; returns how to let a passing one go on. */
async function bring(stack: Stack, state: DesktopState): Promise<{ id: string; release: () => void }> {
  const { faults } = stack.host.driver
  if (state === 'waking') {
    const { id } = await stack.desktop('created')
    const release = faults.hang('startCold')
    await stack.begin(id, 'wake')
    await reached(stack, 'wake.after-mark')
    return { id, release }
  }
  if (state === 'hibernating' || state === 'destroying') {
    const { id } = await stack.desktop('awake')
    const release = faults.hang(state === 'hibernating' ? 'save' : 'removeDisk')
    await stack.begin(id, state === 'hibernating' ? 'hibernate' : 'destroy')
    await reached(stack, state === 'hibernating' ? 'hibernate.before-save' : 'destroy.after-kill')
    return { id, release }
  }
  if (state === 'failed') {
    const { id } = await stack.desktop('hibernated')
    await stack.database.rows(`update desktops set state = 'failed' where id = $1`, [id])
    return { id, release: () => undefined }
  }
  return { id: (await stack.desktop(state)).id, release: () => undefined }
}

test.each(desktopStates)(
  'in state "%s", what the table illegalRequest is 409 that names the state, and changes nothing',
  async (state) => {
    await using stack = await Stack.start()
    const { id, release } = await bring(stack, state)
    const before = await stack.see(id)
    expect(before.state).toBe(state)
    for (const kind of requestKinds.filter((kind) => !legal[kind].includes(state))) {
      const answer = await stack.api('POST', `/v1/desktops/${id}/${kind}`)
      expect([kind, answer.status, answer.json.code]).toEqual([kind, 409, 'wrong_state'])
      expect(answer.json.detail).toContain(`the desktop is ${state}`)
    }
    if (state !== 'awake') {
      const exec = await stack.exec(id, 'true')
      expect([exec.status, exec.json.code]).toEqual([409, 'not_awake'])
    }
    expect(await stack.see(id)).toEqual(before)
    release()
    await stack.settle()
  },
)

test('a desktop settles from the states of the table alone, and a refused settlement names the state and changes nothing', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const { pool } = stack.replica.parts
  const { id } = await stack.desktop()
  const put = (state: DesktopState) => stack.database.rows('update desktops set state = $2 where id = $1', [id, state])
  for (const by of [...requestKinds, 'correction'] as const) {
    for (const to of desktopStates.filter((state) => sourcesOf(by, state).length > 0)) {
      const allowed = sourcesOf(by, to)
      await put(allowed[0]!)
      await settle(pool, id, to, { by, operationId: null })
      expect((await stack.see(id)).state).toBe(to)
      const other = desktopStates.find((state) => !allowed.includes(state))!
      await put(other)
      const before = await stack.see(id)
      await expect(settle(pool, id, to, { by, operationId: null })).rejects.toMatchObject({
        name: 'StateMismatch',
        message: expect.stringContaining(`desktop ${id} is ${other}; a ${by} may make it ${to} from`),
      })
      expect(await stack.see(id)).toEqual(before)
    }
  }
  await put('destroyed')
  const found = { name: 'StateMismatch', message: expect.stringContaining(`desktop ${id} is destroyed`) }
  await expect(failAll(pool, [id], { code: 'host_removed', provedUntil: null })).rejects.toMatchObject(found)
  await expect(unbindAll(pool, [id])).rejects.toMatchObject(found)
})

test('an operation that finds its desktop in another state leaves that state, and fails with it as its cause', async () => {
  await using stack = await Stack.start()
  stack.chronicle.foresee(/found an unexpected state|a success could not be stored/)
  const { id } = await stack.desktop('hibernated')
  stack.failpoints.set('wake.settle.before', async () => {
    await stack.database.rows(`update desktops set state = 'stopped' where id = $1`, [id])
  })
  const { id: operationId } = await stack.begin(id, 'wake')
  expect(await stack.settled(operationId)).toMatchObject({ state: 'failed' })
  const [{ cause, error_code: code } = {}] = await stack.database.rows(
    'select cause, error_code from operations where id = $1',
    [operationId],
  )
  expect([code, cause]).toEqual([
    'internal',
    expect.stringContaining(`desktop ${id} is stopped; a wake may make it awake`),
  ])
  expect((await stack.see(id)).state).toBe('stopped')
  stack.failpoints.set('wake.settle.before', undefined)
  await stack.ask(id, 'wake', { discard_memory: true })
})

test.each(legal.destroy)('destroy is legal in state "%s" and ends with nothing on the host', async (state) => {
  await using stack = await Stack.start()
  const { id, release } = await bring(stack, state)
  const { result } = await stack.ask(id, 'destroy')
  release()
  expect(result).toMatchObject({ desktop_state: 'destroyed', cleanup: 'done' })
  await stack.settle()
  expect(await stack.inventory()).toEqual([])
  expect(await stack.held(id)).toBeUndefined()
})
