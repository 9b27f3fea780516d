// Guarantee: an operation that need not wait begins in the transaction that accepts it; one that cannot begin there is accepted
// anyway.
import { expect, inject, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'
import { LossyDatabase } from './parts/lossy-database.ts'

const stored = async (stack: Stack, id: string) => {
  const [row] = await stack.database.rows<{ state: string; step: number; steps: string[] }>(
    `select state, step, (select array_agg(mark->>'step') from jsonb_array_elements(timeline) mark) steps
     from operations where id = $1`,
    [id],
  )
  return row
}

test('each kind is stored at its first step that reaches the host, and its caller sees it pending', async () => {
  await using stack = await Stack.start()
  const begun = [
    ['hibernated', 'wake', { state: 'running', step: 2, steps: ['place', 'run'] }],
    ['awake', 'hibernate', { state: 'running', step: 0, steps: ['save'] }],
    ['stopped', 'destroy', { state: 'running', step: 0, steps: ['remove'] }],
  ] as const
  const ids: string[] = []
  for (const [state] of begun) ids.push((await stack.desktop(state)).id)
  const go = Promise.withResolvers<void>()
  let reached = 0
  stack.failpoints.set('operation.accepted', () => {
    reached++
    return go.promise
  })
  const accepted = begun.map(([, kind], i) => stack.begin(ids[i]!, kind))
  await waitFor('all to be accepted', () => reached === begun.length)
  for (const [i, [, , expected]] of begun.entries()) {
    const [operation] = await stack.database.rows<{ id: string }>(
      'select id from operations where desktop_id = $1 order by id desc limit 1',
      [ids[i]],
    )
    expect(await stored(stack, operation!.id)).toEqual(expected)
  }
  expect(await stack.held(ids[0]!)).toBe(512)
  go.resolve()
  expect((await Promise.all(accepted)).map(({ state }) => state)).toEqual(['pending', 'pending', 'pending'])
  await stack.settle()
  expect((await stack.see(ids[0]!)).state).toBe('awake')
  expect((await stack.see(ids[1]!)).state).toBe('hibernated')
  expect((await stack.see(ids[2]!)).state).toBe('destroyed')
})

test('a wake whose host cannot take it now is accepted, and waits for it', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('hibernated')
  await stack.killAgent()
  const wake = await stack.begin(id, 'wake')
  expect((await stored(stack, wake.id))?.steps ?? []).not.toContain('run')
  await stack.restartAgent()
  expect(await stack.settled(wake.id)).toMatchObject({ state: 'succeeded' })
})

test('an acceptance that is lost before its commit gives its slot back', async () => {
  await using lossy = await LossyDatabase.start(inject('databaseUrl'))
  await using stack = await Stack.start({ databaseServer: lossy.url, controlPlane: { operationsPerHost: 1 } })
  const { id } = await stack.desktop('hibernated')
  const lost = lossy.loseBeforeCommitOf('operations-insert')
  const [answer] = await Promise.all([stack.api('POST', `/v1/desktops/${id}/wake`, { body: {} }), lost])
  expect([answer.status, answer.json.code]).toEqual([503, 'database_unavailable'])
  expect((await stack.ask(id, 'wake')).state).toBe('succeeded')
})
