// Guarantee: an agent uses desktops by the reference client of its protocol, with its own credential and nothing beyond it.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { House } from '../house.ts'
import { waitFor } from '../wait-for.ts'

let house: House
beforeAll(async () => {
  house = await House.start()
})
afterAll(() => house?.[Symbol.asyncDispose]())

async function connect(query = '', key = house.org.key) {
  const agent = new Client({ name: 'test', version: '1' })
  const requestInit = { headers: { authorization: `Bearer ${key}` } }
  await agent.connect(new StreamableHTTPClientTransport(new URL(`${house.url}/mcp${query}`), { requestInit }))
  const call = async (name: string, args: Record<string, unknown> = {}) => {
    const { content, isError = false } = await agent.callTool({ name, arguments: args })
    return { isError, text: (content as { text: string }[])[0]!.text, content }
  }
  return { agent, call, [Symbol.asyncDispose]: () => agent.close() }
}

test('an agent creates a desktop, uses it and lets it sleep', async () => {
  await using agent = await connect()
  const created = await agent.call('desktop_create', { tier: 'small' })
  expect(created.text).toMatch(/^[0-9a-f-]{36} is awake/)
  const desktop_id = created.text.slice(0, 36)
  expect((await agent.call('desktop_list')).text).toContain(`${desktop_id}  awake`)
  await agent.call('desktop_write_file', { desktop_id, path: '/srv/a b', text: 'Grüße\n' })
  expect((await agent.call('desktop_read_file', { desktop_id, path: '/srv/a b' })).text).toBe('Grüße\n')
  expect((await agent.call('desktop_list_files', { desktop_id, path: '/srv' })).text).toContain('/srv/a b')
  expect((await agent.call('desktop_run', { desktop_id, command: 'echo here' })).text).toBe(
    'exit code 0\n--- stdout\nhere\n',
  )
  const acted = await agent.call('desktop_act', { desktop_id, actions: [{ action: 'key', text: 'ctrl+a' }] })
  expect([acted.isError, acted.text]).toEqual([false, expect.stringMatching(/^1 of 1 actions done/)])
  const started = await agent.call('desktop_run', { desktop_id, command: 'echo going on', background: true })
  const exec_id = /exec_id (\S+)/.exec(started.text)![1]
  await waitFor(async () =>
    (await agent.call('desktop_output', { desktop_id, exec_id })).text.startsWith(
      'exit code 0; stdout 0–9 of 9; read on with offset 9\ngoing on',
    ),
  )
  expect((await agent.call('desktop_hibernate', { desktop_id })).text).toContain('is hibernated')
  const asleep = await agent.call('desktop_run', { desktop_id, command: 'true' })
  expect([asleep.isError, asleep.text]).toEqual([true, expect.stringContaining('call desktop_wake')])
})

test('another organisation’s desktop is one that does not exist, also where an agent is given it', async () => {
  const { id: desktop_id } = await house.desktop('awake')
  const other = await house.newOrg('agents')
  await using agent = await connect('', other.key)
  const answer = await agent.call('desktop_run', { desktop_id, command: 'true' })
  expect([answer.isError, answer.text]).toEqual([true, expect.stringContaining('call desktop_list')])
  await using pinned = await connect(`?desktop=${desktop_id}&grants=see,use`, other.key)
  expect((await pinned.call('desktop_run', { command: 'true' })).isError).toBe(true)
})

test('who has no key, or asks for grants that do not exist, gets no further', async () => {
  const post = (query: string, key = house.org.key) => house.api('POST', `/mcp${query}`, { key, body: {} })
  expect((await post('', 'svc_sk_wrong')).status).toBe(401)
  const misspelt = await post('?grants=see,destory')
  expect([misspelt.status, misspelt.json.field]).toEqual([400, 'grants'])
  expect((await house.api('GET', '/mcp')).status).toBe(405)
})
