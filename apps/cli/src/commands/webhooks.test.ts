// Guarantee: the commands for webhooks send what was given, and show what came back.
import type { Script } from '@dormouse/client/testing/scripted-server'
import { expect, test } from 'vitest'
import { start } from '../testing/process.ts'

const time = '2026-01-02T03:04:05.678Z'
const webhook = {
  ...{ id: 'w1', url: 'https://example.com/', types: null, enabled: true, disabled_reason: null, disabled_at: null },
  ...{
    failing_since: null,
    signature: 'v1',
    public_keys: [],
    old_secret_until: null,
    created_at: time,
    updated_at: time,
  },
}
const delivery = {
  ...{
    id: 'd1',
    webhook_id: 'w1',
    event_id: 'e1',
    type: 'desktop.state',
    sequence: 7,
    state: 'failed',
    next_attempt_at: null,
  },
  ...{ attempts: [{ at: time, status: 500, duration_ms: 3, error: 'status' }], created_at: time, settled_at: time },
}
const service: Script = ({ method, path }) => {
  if (path.endsWith('/deliveries')) return { body: { deliveries: [delivery] } }
  if (path === '/v1/webhooks/w1/redeliver') return { status: 202, body: { count: 3, more_since: time } }
  return { status: method === 'POST' ? 201 : 200, body: { ...webhook, secret: 'whsec_x' } }
}

test('add, update, deliveries and redeliver', async () => {
  const { dormouse, seen } = await start(service)
  const added = await dormouse(['webhook', 'add', 'https://example.com/', '--type', 'key.created', 'key.revoked'])
  expect(added.stdout).toContain('whsec_x')
  expect((await dormouse(['webhook', 'update', 'w1', '--disable', '--all-types'])).code).toBe(0)
  expect((await dormouse(['webhook', 'deliveries', 'w1', '--state', 'failed'])).stdout).toContain('500 status')
  const again = await dormouse(['webhook', 'redeliver', 'w1', '--since', time, '--failed'])
  expect([again.stdout, again.stderr]).toEqual(['3 deliveries are sent again\n', expect.stringContaining(time)])
  expect((await dormouse(['webhook', 'redeliver', 'w1'])).code).toBe(2)
  expect(seen.map(({ method, path, query, body }) => `${method} ${path}?${query} ${body}`)).toEqual([
    'POST /v1/webhooks? {"url":"https://example.com/","types":["key.created","key.revoked"],"signature":"v1"}',
    'PATCH /v1/webhooks/w1? {"types":null,"enabled":false}',
    'GET /v1/webhooks/w1/deliveries?limit=50&state=failed ',
    `POST /v1/webhooks/w1/redeliver? {"since":"${time}","state":"failed"}`,
  ])
})
