// Guarantee: the commands for keys send what was given, and show what came back: the key itself once.
import type { Script } from '@dormouse/client/testing/scripted-server'
import { expect, test } from 'vitest'
import { start } from '../testing/process.ts'

const id = '019a9f00-0000-7000-8000-0000000000dd'
const key = {
  ...{ id, name: 'ci', can: ['see', 'use'], select: 'team=qa', desktop_id: null, made_by: 'key:x' },
  ...{ created_at: '2026-01-02T03:04:05.678Z', expires_at: null, last_used_at: null },
}
const service: Script = ({ method }) => {
  if (method === 'DELETE') return { status: 204 }
  return method === 'POST'
    ? { status: 201, body: { ...key, api_key: 'svc_sk_secret' } }
    : { status: 200, body: { keys: [key] } }
}

test('create, list and revoke', async () => {
  const { dormouse, seen } = await start(service)
  const limits = ['--can', 'see', 'use', '--expires', '30d']
  const made = await dormouse(['key', 'create', '--name', 'ci', ...limits, '--select', 'team=qa'])
  expect([made.stdout, made.stderr]).toEqual([
    expect.stringContaining('svc_sk_secret'),
    expect.stringContaining('not shown again'),
  ])
  expect((await dormouse(['key', 'create', '--name', 'ci', ...limits, '--desktop', id])).code).toBe(0)
  expect((await dormouse(['key', 'list'])).stdout).toMatch(/^ID +NAME +CAN.*\n.* ci +see use +team=qa /)
  expect((await dormouse(['key', 'revoke', id])).stdout).toBe(`key ${id} is revoked\n`)
  for (const wrong of [
    ['--name', 'ci'],
    ['--name', 'ci', '--can', 'fly'],
    ['--name', 'ci', '--can', 'see', '--select', 'a', '--desktop', id],
    ['--name', 'ci', '--can', 'see', '--expires', '4000d'],
  ])
    expect([wrong, (await dormouse(['key', 'create', ...wrong])).code]).toEqual([wrong, 2])
  expect(seen.map(({ method, path, body }) => `${method} ${path} ${body}`)).toEqual([
    'POST /v1/keys {"name":"ci","can":["see","use"],"select":"team=qa","expires_in_secs":2592000}',
    `POST /v1/keys {"name":"ci","can":["see","use"],"desktop_id":"${id}","expires_in_secs":2592000}`,
    'GET /v1/keys ',
    `DELETE /v1/keys/${id} `,
  ])
})
