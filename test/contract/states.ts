// The chapter "States and transitions".

import { holds, problem, same, status } from './assertions.ts'
import type { Context } from './context.ts'
import { settles } from './resources.ts'
import type { Chapter } from './row.ts'

/** What each verb answers about a desktop that it may not touch. */
async function forbidden(context: Context, id: string, verbs: string[]): Promise<void> {
  const before = await context.see(id)
  for (const verb of verbs)
    problem(`${verb} in state ${before.state}`, await context.post(`/v1/desktops/${id}/${verb}`), 409)
  same('the desktop', await context.see(id), before)
}

export const states: Chapter = {
  title: 'States and transitions',
  rows: [
    {
      id: 'states.filter',
      sentence: 'Desktop `state` is filterable on list. `awake` is the one value named.',
      async check(context) {
        const [awake, idle] = [await context.awake(), await context.idle()]
        const { json } = status('list', await context.get('/v1/desktops?state=awake'), 200)
        const found = json.desktops as { id: string; state: string }[]
        holds(
          'states',
          found.map(({ state }) => state),
          'awake only',
          found.every(({ state }) => state === 'awake'),
        )
        const ids = found.map(({ id }) => id)
        same('holds the awake one, and the other', [ids.includes(awake), ids.includes(idle)], [true, false])
      },
    },
    {
      id: 'states.wrong-state',
      sentence: 'a wake, hibernate or destroy requested in a desktop state that does not permit it gives 409',
      async check(context) {
        await forbidden(context, await context.awake(), ['wake'])
        await forbidden(context, await context.idle(), ['hibernate'])
        const { id } = await context.fresh()
        await context.settled(id, 'destroy')
        await forbidden(context, id, ['wake', 'hibernate', 'destroy'])
      },
    },
    {
      id: 'states.guest',
      sentence: 'A guest operation (exec, files) against a desktop that is not currently awake gives 409.',
      async check(context) {
        for (const id of [await context.idle(), await context.asleep()]) {
          const at = `/v1/desktops/${id}`
          problem('exec', await context.post(`${at}/exec`, { command: 'true' }), 409)
          problem('write', await context.ask('PUT', `${at}/files/tmp/x`, { body: 'x' }), 409)
          problem('read', await context.get(`${at}/files/tmp/x`), 409)
        }
      },
    },
    {
      id: 'states.pending',
      sentence: 'request accepted | `pending` | Operation handle returned; 202 without `?wait=true`',
      async check(context) {
        const id = await context.awake()
        for (const [verb, query] of [
          ['hibernate', ''],
          ['wake', '?wait=false'],
        ]) {
          const { json } = status(`${verb}${query}`, await context.post(`/v1/desktops/${id}/${verb}${query}`), 202)
          same('state', json.state, 'pending')
          await settles(context, json.id)
        }
      },
    },
    {
      id: 'states.cap',
      sentence: '`?wait=true` cap (120 s) reached | still unsettled | In-progress operation returned with 200',
      needs: 'an operation that hangs',
      provedBy: ['test/integration/contract.test.ts', 'a wait that reaches its cap answers the operation as it is'],
    },
    {
      id: 'states.failed',
      sentence: 'settled `failed` | observed inside a `?wait=true` window | 409 problem body with `operation_id`',
      async check(context) {
        const { wake, again } = await context.failing()
        const { json } = problem('wake', await again(), 409)
        same('the operation', json.operation_id, wake.id)
        const operation = status('operation', await context.get(`/v1/operations/${wake.id}`), 200).json
        const { desktop_id, kind, state } = operation
        same('its fields', [desktop_id, kind, state], [wake.desktop_id, 'wake', 'failed'])
      },
    },
  ],
}
