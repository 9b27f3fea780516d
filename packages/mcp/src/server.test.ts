import { createClient, type WakeWish } from '@dormouse/client'
import { execId, execScript, startedWith, wasRemoved } from '@dormouse/client/testing/exec-script'
import { desktop, desktopId, operation, operationId, succeeded } from '@dormouse/client/testing/samples'
import { problem, type Script, serve } from '@dormouse/client/testing/scripted-server'
import { InMemoryTransport, Client as McpClient } from '@modelcontextprotocol/client'
import { expect, onTestFinished, test } from 'vitest'
import { parseGrants } from './grants.ts'
import { createMcpServer, type McpOptions } from './server.ts'

/** An agent's client of the reference implementation, on a server over a scripted service. */
async function connect(script: Script, options: Partial<McpOptions> = {}) {
  const service = await serve(script)
  onTestFinished(() => service[Symbol.asyncDispose]())
  const clientFor = (wake?: WakeWish) =>
    createClient({ baseUrl: service.baseUrl, apiKey: 'svc_sk_secret', retries: 0, ...(wake && { wake }) })
  const [here, there] = InMemoryTransport.createLinkedPair()
  await createMcpServer({ clientFor, ...options }).connect(there)
  const agent = new McpClient({ name: 'test', version: '1' })
  await agent.connect(here)
  onTestFinished(() => agent.close())
  const call = async (name: string, args: object = {}) => {
    const result = await agent.callTool({ name, arguments: args as Record<string, unknown> })
    const { content, isError, structuredContent: data } = result
    return { content: content as { type: string; text?: string; data?: string; mimeType?: string }[], isError, data }
  }
  return { agent, call, seen: service.seen }
}

const awake: Script = () => ({ body: desktop({ state: 'awake' }) })

const names = async (options: Partial<McpOptions>) =>
  (await (await connect(awake, options)).agent.listTools()).tools.map(({ name }) => name)

test('by default an agent has every tool but those that destroy', async () => {
  expect(await names({})).toEqual([
    'desktop_list',
    'desktop_images',
    'desktop_create',
    'desktop_wake',
    'desktop_hibernate',
    'desktop_bulk',
    'desktop_schedule',
    'desktop_metrics',
    'desktop_screen',
    'desktop_act',
    'desktop_run',
    'desktop_output',
    'desktop_end_command',
    'desktop_read_file',
    'desktop_write_file',
    'desktop_list_files',
  ])
})

test('a tool that was not granted cannot be called, and a misspelt grant is refused', async () => {
  expect(await names({ grants: ['see'] })).not.toContain('desktop_run')
  const { call, seen } = await connect(awake, { grants: ['see'] })
  await expect(call('desktop_run', { desktop_id: desktopId, command: 'ls' })).rejects.toThrow(/desktop_run/)
  expect(seen).toEqual([])
  expect(() => parseGrants('see,destory')).toThrow('"destory" is no grant')
})

test('an agent with one desktop knows no other', async () => {
  const { agent, call, seen } = await connect(awake, { desktopId, grants: ['see', 'use', 'create', 'destroy'] })
  const { tools } = await agent.listTools()
  expect(tools.map(({ name }) => name)).not.toContain('desktop_list')
  expect(tools.map(({ name }) => name)).not.toContain('desktop_create')
  expect(tools.flatMap(({ inputSchema }) => Object.keys(inputSchema.properties ?? {}))).not.toContain('desktop_id')
  const other = '019a9f00-0000-7000-8000-000000000002'
  expect((await call('desktop_run', { command: 'ls', desktop_id: other })).isError).toBe(true)
  expect(seen).toEqual([])
})

test('a tool wakes its desktop if the agent says so, and never without the grant', async () => {
  const given = { desktop_id: desktopId, path: '/' }
  const listing: Script = () => ({ body: { entries: [], next_cursor: null } })
  const free = await connect(listing)
  await free.call('desktop_list_files', { ...given, wake: true })
  await free.call('desktop_list_files', given)
  const bound = await connect(listing, { grants: ['see'] })
  expect((await bound.call('desktop_list_files', { ...given, wake: true })).isError).toBe(true)
  await bound.call('desktop_list_files', given)
  const wishes = [...free.seen, ...bound.seen].map(({ headers }) => headers['dormouse-wake'])
  expect(wishes).toEqual(['allow', undefined, 'never'])
})

test('tools say what they do to the world', async () => {
  const { agent } = await connect(awake, { grants: ['see', 'destroy'] })
  const { tools } = await agent.listTools()
  const of = (name: string) => tools.find((each) => each.name === name)?.annotations
  expect(of('desktop_screen')).toMatchObject({ readOnlyHint: true, destructiveHint: false, idempotentHint: true })
  expect(of('desktop_destroy')).toMatchObject({ readOnlyHint: false, destructiveHint: true })
})

test('a command shows its exit code, and the beginning and the end of its output', async () => {
  const stdout = `begin${'x'.repeat(40_000)}end`
  const { call, seen } = await connect(execScript({ exit_code: 3, stdout, stderr: 'oops' }))
  const { content, isError } = await call('desktop_run', { desktop_id: desktopId, command: 'make' })
  expect(isError).toBeFalsy()
  expect(content[0]!.text).toMatch(
    /^exit code 3\n--- stdout \(only its beginning and its end.*\)\nbeginx+\n… 23624 characters left out …\nx+end\n--- stderr\noops$/,
  )
  expect(content[0]!.text!.length).toBeLessThan(17_000)
  expect(startedWith(seen)).toEqual({ command: 'make', timeout_secs: 60, wait_for_reader: true })
  expect(wasRemoved(seen)).toBe(true)
})

test('a command that reaches its timeout shows what it had printed; one in the background is ended', async () => {
  const end = { exit_code: null, signal: 9, reason: 'timeout', stdout: 'so far' }
  const late = await connect(execScript(end))
  const { content, isError } = await late.call('desktop_run', { desktop_id: desktopId, command: 'make' })
  expect([isError, content[0]!.text]).toEqual([true, expect.stringMatching(/timeout_secs.*\n--- stdout\nso far$/s)])
  const { call, seen } = await connect(execScript({ exit_code: null, signal: 15 }))
  const ended = await call('desktop_end_command', { desktop_id: desktopId, exec_id: execId })
  expect(ended.content[0]!.text).toBe('exited, by signal 15')
  const asked = seen.find(({ path }) => path.endsWith('/signal'))
  expect(JSON.parse(String(asked?.body))).toEqual({ signal: 15 })
})

test('a picture comes as a picture, behind a short text', async () => {
  const png = Buffer.alloc(64)
  const headers = { 'content-type': 'image/png', 'dormouse-screen-size': '1280x800' }
  const { call, seen } = await connect(() => ({ headers, body: png }))
  const { content, data } = await call('desktop_screen', { desktop_id: desktopId })
  expect(data).toEqual({ width: 1_280, height: 800 })
  expect(content).toEqual([
    { type: 'text', text: 'The screen is 1280 × 800 pixels.' },
    { type: 'image', mimeType: 'image/png', data: png.toString('base64') },
  ])
  await call('desktop_screen', { desktop_id: desktopId, region: { x: 0, y: 10, width: 20, height: 30 } })
  expect(seen[1]!.query.get('region')).toBe('0,10,20,30')
})

test('actions come with the picture of what they did; a batch whose outcome is unknown says so', async () => {
  const done = {
    performed: 2,
    outcome: 'done',
    reason: null,
    settled: true,
    changed: true,
    settle_ms: 1,
    pointer: null,
  }
  const screen = { width: 1_280, height: 800, sequence: 'a' }
  const screenshot = { mime_type: 'image/png', data: 'iVBORw==' }
  const actions = [
    { type: 'click', x: 0, y: 300 },
    { type: 'type', text: 'Grüße' },
  ]
  const { call, seen } = await connect(() => ({ body: { ...done, screen, screenshot } }))
  const { content } = await call('desktop_act', { desktop_id: desktopId, actions })
  expect(JSON.parse(seen[0]!.body.toString())).toEqual({ actions, takeover: false, settle: {}, screenshot: {} })
  expect(content).toEqual([
    { type: 'text', text: '2 of 2 actions done; the screen is 1280 × 800 pixels' },
    { type: 'image', mimeType: 'image/png', data: screenshot.data },
  ])
  const lost = {
    ...done,
    outcome: 'unknown',
    performed: null,
    reason: 'the agent ended',
    screen: null,
    screenshot: null,
  }
  const other = await connect(() => ({ body: lost }))
  const unknown = await other.call('desktop_act', { desktop_id: desktopId, actions })
  expect(unknown.content[0]!.text).toBe(
    'unknown: it is not known how many actions were done; the agent ended; call desktop_screen for a picture',
  )
})

test('a failure is a result with the next step, and a wrong argument names itself', async () => {
  const asleep = () => problem(409, 'not_awake', 'the desktop is hibernated', { state: 'hibernated' })
  const { call } = await connect(asleep)
  const failed = await call('desktop_screen', { desktop_id: desktopId })
  expect(failed).toMatchObject({ isError: true })
  expect(failed.content[0]!.text).toBe('the desktop is hibernated\nNext step: call desktop_wake, then retry')
  const wrong = await call('desktop_run', { desktop_id: desktopId, comand: 'ls' })
  expect([wrong.isError, wrong.content[0]!.text]).toEqual([true, expect.stringContaining('command')])
})

test('a created desktop is woken; one that cannot be is removed again, also by an agent that may not destroy', async () => {
  const script =
    (wake: () => ReturnType<Script>, destroy: typeof wake = () => ({ body: succeeded({ kind: 'destroy' }) })): Script =>
    (request) => {
      if (request.path.endsWith('destroy')) return destroy()
      return request.path.endsWith('wake') ? wake() : { body: desktop() }
    }
  const { call, seen: first } = await connect(script(() => ({ body: succeeded() })))
  const woken = await call('desktop_create', { tier: 'small' })
  expect(woken.content[0]!.text).toBe(`${desktopId} is awake; its memory was restored`)
  expect(woken.data).toEqual({ desktop_id: desktopId, state: 'awake', resumed_from: 'memory' })
  expect(first.some(({ path }) => path.endsWith('destroy'))).toBe(false)

  const full = () => problem(409, 'operation_failed', 'no host has capacity')
  const { call: create, seen } = await connect(script(full))
  const failed = await create('desktop_create')
  expect([failed.isError, failed.content[0]!.text]).toEqual([
    true,
    expect.stringMatching(/no host has capacity\n.*removed/),
  ])
  expect(seen.map(({ path }) => path.split('/').at(-1))).toEqual(['desktops', 'wake', 'destroy'])

  const stuck = await connect(script(full, () => problem(409, 'wrong_state', 'it cannot be destroyed now')))
  const left = await stuck.call('desktop_create')
  expect(left.content[0]!.text).toContain(`${desktopId} is left`)
})

test('an agent sets when a desktop wakes and ends, and sees what comes next', async () => {
  const next = [{ what: 'wake', at: '2026-01-31T07:00:00.000Z', because: 'schedule' }]
  const ended = desktop({ destroy_at: '2026-02-01T07:00:00.000Z' })
  const { call, seen } = await connect(({ path }) => ({ body: path.endsWith('/idle') ? { next } : ended }), {
    grants: ['power', 'destroy'],
  })
  const wake = '2026-01-31T08:00:00'
  const set = await call('desktop_schedule', {
    desktop_id: desktopId,
    wake,
    hibernate: 'never',
    time_zone: 'Europe/Berlin',
  })
  expect([set.content[0]!.text, set.data]).toEqual([
    '2026-01-31T07:00:00.000Z  wake, because of its schedule',
    { desktop_id: desktopId, next },
  ])
  const later = await call('desktop_destroy_later', { desktop_id: desktopId, after_secs: 86_400 })
  expect(later.data).toEqual({ desktop_id: desktopId, destroy_at: ended.destroy_at })
  await call('desktop_destroy_later', { desktop_id: desktopId, after_secs: 0 })
  expect(seen.filter(({ method }) => method === 'PATCH').map(({ body }) => JSON.parse(body.toString()))).toEqual([
    { schedule: { wake: { at: wake, time_zone: 'Europe/Berlin' }, hibernate: null } },
    { destroy_after_secs: 86_400 },
    { destroy_after_secs: null },
  ])
})

test('what a desktop can be created with is listed; an image that is not there leaves no desktop and names the list', async () => {
  const images = [{ image_version: 'mini', resolved_image_version: null, is_default: true }]
  const tiers = [{ tier: 'small', vcpus: 1, memory_mib: 512, disk_gib: 10 }]
  const { call, seen } = await connect(({ path }) => {
    if (path === '/v1/images') return { body: { images } }
    if (path === '/v1/tiers') return { body: { tiers } }
    return problem(400, 'invalid_request', 'image_version: there is no image "none"', { field: 'image_version' })
  })
  const listed = await call('desktop_images')
  expect(listed.data).toEqual({ images: [{ image: 'mini', is_default: true }], tiers })
  expect(listed.content[0]!.text).toBe('image mini (the default)\ntier small: 1 CPUs, 512 MiB memory, 10 GiB disk')
  const created = await call('desktop_create', { image_version: 'none' })
  expect([created.isError, created.content[0]!.text]).toEqual([true, expect.stringContaining('call desktop_images')])
  expect(seen.map(({ path }) => path).sort()).toEqual(['/v1/desktops', '/v1/images', '/v1/tiers'])
  expect(JSON.parse(String(seen.find(({ path }) => path === '/v1/desktops')!.body))).toEqual({
    tier: 'default',
    image_version: 'none',
  })
  const both = await call('desktop_create', { image: 'a', image_version: 'b' })
  expect(both.content[0]!.text).toContain('two names of one argument')
})

test('a desktop whose agent has left before it was awake is removed again', async () => {
  const left = new AbortController()
  const removed = Promise.withResolvers<void>()
  const { agent } = await connect(({ path }) => {
    if (path.endsWith('destroy')) removed.resolve()
    if (path.endsWith('destroy')) return { body: succeeded({ kind: 'destroy' }) }
    if (!path.endsWith('wake')) return { body: desktop() }
    left.abort()
    return { status: 202, body: operation() }
  })
  const call = agent.callTool({ name: 'desktop_create', arguments: {} }, { signal: left.signal })
  await expect(call).rejects.toThrow()
  await removed.promise
})

test('a file is read in parts that end between characters', async () => {
  const file = Buffer.from(`${'a'.repeat(65_535)}ü and more`)
  const { call } = await connect(({ headers }) => {
    const [, from, to] = /^bytes=(\d+)-(\d+)$/.exec(headers.range!)!.map(Number)
    const body = file.subarray(from, to! + 1)
    return {
      status: 206,
      headers: { 'content-range': `bytes ${from}-${from! + body.length - 1}/${file.length}` },
      body,
    }
  })
  const first = await call('desktop_read_file', { desktop_id: desktopId, path: '/srv/a' })
  expect(first.content[0]!.text).toMatch(/^a{65535}\n--- 65535 of 65546 bytes; read on with offset 65535$/)
  const rest = await call('desktop_read_file', { desktop_id: desktopId, path: '/srv/a', offset: 65_535 })
  expect(rest.content[0]!.text).toBe('ü and more')
})

test('many desktops are hibernated by a selector, and each that was not has its reason', async () => {
  const progress = { total: 3, waiting: 0, working: 0, succeeded: 2, failed: 0, skipped: 1, cancelled: 0 }
  const row = (reason: object | null) => ({
    desktop_id: desktopId,
    name: null,
    state: 'awake',
    status: 'skipped',
    reason,
    operation_id: null,
  })
  const plan = {
    ...{
      id: operationId,
      action: 'hibernate',
      select: 'team=qa',
      state: 'done',
      created_at: null,
      settled_at: 'now',
      progress,
    },
    desktops: [row(null), row({ code: 'wrong_state', detail: 'it is failed' })],
  }
  const { call, seen } = await connect(() => ({ body: plan }))
  const done = await call('desktop_bulk', { action: 'hibernate', select: 'team=qa' })
  expect(done.content[0]!.text).toBe(
    `3 desktops match; 2 succeeded, 0 failed, 1 were skipped\n${desktopId}: it is failed`,
  )
  expect(JSON.parse(String(seen[0]!.body))).toEqual({ action: 'hibernate', select: 'team=qa' })
})
