// Guarantee: an exec starts once, its output and input go by offsets, and every answer is its guest's.
import { createClient, Desktop } from '@dormouse/client'
import { newId } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'

const json = (text: string) => JSON.parse(text)

/** The exec, once it has ended. */
const endOf = (stack: Stack, path: string) =>
  waitFor('the exec to end', async () => {
    const { json: exec } = await stack.api('GET', path)
    return exec.state === 'running' ? undefined : exec
  })

test('an exec starts once for its key; its streams are read by offset, and deleting it leaves nothing', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const execs = `/v1/desktops/${id}/execs`
  const body = { command: 'echo out; echo err >&2; echo x >> /srv/times; exit 7' }
  const keyed = { body, headers: { 'idempotency-key': 'one' } }
  const [first, again] = [await stack.api('POST', execs, keyed), await stack.api('POST', execs, keyed)]
  expect([first.status, again.status, again.headers['idempotency-replayed']]).toEqual([201, 200, 'true'])
  expect(again.json.id).toBe(first.json.id)
  const other = await stack.api('POST', execs, { ...keyed, body: { command: 'echo other' } })
  expect([other.status, other.headers['idempotency-replayed'], other.json.id]).toEqual([200, 'mismatch', first.json.id])
  const path = `${execs}/${first.json.id}`
  expect(await endOf(stack, path)).toMatchObject({
    ...{ state: 'exited', exit_code: 7, signal: null, reason: null, desktop_id: id },
    stdout: { start: 0, end: 4, dropped_bytes: 0 },
  })
  expect((await stack.exec(id, 'cat /srv/times')).json.stdout).toBe('x\n')
  const out = await stack.api('GET', `${path}/output?offset=1&wait_secs=60`)
  expect(out).toMatchObject({ status: 200, text: 'ut\n' })
  expect(out.headers).toMatchObject({
    'dormouse-next-offset': '4',
    'dormouse-exec-state': 'exited',
    'dormouse-output-end': 'true',
  })
  expect((await stack.api('GET', `${path}/output?stream=stderr`)).text).toBe('err\n')
  const beyond = await stack.api('GET', `${path}/output?offset=5`)
  expect([beyond.status, beyond.json.code]).toEqual([409, 'exec_offset'])
  expect((await stack.api('GET', execs)).json.execs.map((exec: { id: string }) => exec.id)).toEqual([first.json.id])
  expect((await stack.api('DELETE', path)).json).toEqual({ id: first.json.id })
  expect((await stack.api('DELETE', path)).status).toBe(200)
  for (const answer of [await stack.api('GET', path), await stack.api('POST', execs, keyed)])
    expect([answer.status, answer.json.code]).toEqual([404, 'exec_unknown'])
})

test('server-sent events carry the bytes with the offset behind them, and end once the command has', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const { json: exec } = await stack.api('POST', `/v1/desktops/${id}/execs`, { body: { command: 'cat', stdin: true } })
  const path = `/v1/desktops/${id}/execs/${exec.id}`
  const accept = { accept: 'text/event-stream' }
  const following = stack.api('GET', `${path}/output`, { headers: accept })
  const put = (offset: number, body: string, more = '') =>
    stack.api('POST', `${path}/stdin?offset=${offset}${more}`, { body })
  expect((await put(0, 'hello')).json).toEqual({ next_offset: 5 })
  expect((await put(0, 'hello')).json).toEqual({ next_offset: 5 })
  expect((await put(3, 'lo you')).json).toEqual({ next_offset: 9 })
  const gap = await put(10, 'x')
  expect([gap.status, gap.json.code]).toEqual([409, 'exec_offset'])
  expect((await put(9, '', '&eof=true')).json).toEqual({ next_offset: 9 })
  const { status, text } = await following
  const blocks = text.split('\n\n').filter((block) => block !== '' && !block.startsWith(':'))
  const end = blocks.pop()
  const pieces = blocks.map((block) => /^id: (\d+)\ndata: (.+)$/.exec(block)!)
  let next = 0
  for (const [, behind, data] of pieces) {
    const { offset, base64 } = json(data!) as { offset: number; base64: string }
    expect([offset, Number(behind)]).toEqual([next, next + atob(base64).length])
    next = Number(behind)
  }
  const said = pieces.map(([, , data]) => atob((json(data!) as { base64: string }).base64)).join('')
  expect([status, said]).toEqual([200, 'hello you'])
  expect(end).toMatch(/^event: end\ndata: /)
  expect(json(end!.slice('event: end\ndata: '.length))).toMatchObject({ reason: 'ended', exec: { exit_code: 0 } })
  const rest = await stack.api('GET', `${path}/output`, { headers: { ...accept, 'last-event-id': '6' } })
  expect(rest.text).toContain(`{"offset":6,"base64":"${btoa('you')}"}`)
  const late = await put(9, 'more')
  expect([late.status, late.json.code]).toEqual([409, 'exec_input_closed'])
})

test('a start whose answer was lost is found again; a killed agent and a sleep lose no exec; a boot makes it lost', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const execs = `/v1/desktops/${id}/execs`
  const keyed = { body: { command: 'echo x >> /srv/times; sleep 600' }, headers: { 'idempotency-key': 'lost' } }
  const cut = () => stack.replica.parts.links.disconnect(stack.host.id, 'cut by the test')
  stack.host.failpoints.set('command.before-reply', cut)
  expect((await stack.api('POST', execs, keyed)).status).toBe(503)
  stack.host.failpoints.set('command.before-reply', undefined)
  await stack.linked(stack.host)
  const { status, json: exec } = await stack.api('POST', execs, keyed)
  expect([status, exec.state]).toEqual([200, 'running'])
  await stack.killAgent()
  await stack.restartAgent()
  expect((await stack.api('GET', `${execs}/${exec.id}`)).json.state).toBe('running')
  await stack.ask(id, 'hibernate')
  const asleep = await stack.api('GET', `${execs}/${exec.id}`)
  expect([asleep.status, asleep.json.code]).toEqual([409, 'not_awake'])
  await stack.ask(id, 'wake')
  expect((await stack.api('GET', `${execs}/${exec.id}`)).json.state).toBe('running')
  await stack.ask(id, 'hibernate')
  await stack.ask(id, 'wake', { discard_memory: true })
  const lost = await stack.api('GET', `${execs}/${exec.id}`)
  expect(lost.json).toMatchObject({ state: 'lost', reason: 'boot', exit_code: null })
  expect((await stack.api('POST', execs, keyed)).json).toMatchObject({ id: exec.id, state: 'lost' })
  expect((await stack.exec(id, 'cat /srv/times')).json.stdout).toBe('x\n')
})

test('what cannot be is refused before anything starts', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const execs = `/v1/desktops/${id}/execs`
  const start = async (body: object) => {
    const answer = await stack.api('POST', execs, { body })
    return [answer.status, answer.json.code, answer.json.field]
  }
  expect(await start({ command: 'true', timeout_sec: 5 })).toEqual([400, 'invalid_request', 'timeout_sec'])
  expect(await start({ command: 'true', timeout_secs: 0 })).toEqual([400, 'invalid_request', 'timeout_secs'])
  expect(await start({ command: 'true', stdin: 'x'.repeat(262_145) })).toEqual([400, 'invalid_request', 'stdin'])
  for (const [body, detail] of [
    [{ command: ['no-such'] }, 'the guest has no program "no-such"; check its name'],
    [{ command: 'true', cwd: '/no/such' }, 'the guest has no folder "/no/such" to run the command in'],
  ] as const) {
    const answer = await stack.api('POST', execs, { body })
    expect([answer.status, answer.json.code, answer.json.detail]).toEqual([
      ...[409, 'command_not_run'],
      expect.stringContaining(detail),
    ])
  }
  expect((await stack.api('GET', execs)).json.execs).toEqual([])
  const unknown = `${execs}/${newId()}`
  for (const [method, path, body] of [
    ['GET', unknown, undefined],
    ['GET', `${unknown}/output`, undefined],
    ['POST', `${unknown}/signal`, { signal: 15 }],
    ['POST', `${unknown}/stdin?offset=0`, 'x'],
  ] as const) {
    const answer = await stack.api(method, path, { body })
    expect([path, answer.status, answer.json.code]).toEqual([path, 404, 'exec_unknown'])
  }
})

test('the SDK starts, listens, sends input, kills and lists; the command line shows the output', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const client = createClient({ baseUrl: stack.replica.url, apiKey: stack.org.key })
  const desktop = await Desktop.connect(id, { client })
  const heard: string[] = []
  const result = await desktop.commands.run('echo out; echo err >&2; exit 3', { onStdout: (text) => heard.push(text) })
  expect(result).toMatchObject({ exitCode: 3, stdout: 'out\n', stderr: 'err\n', stdoutTruncated: false })
  expect(heard.join('')).toBe('out\n')
  const exec = await desktop.commands.start('cat', { stdin: true })
  await exec.sendStdin('one ')
  await exec.sendStdin('two', { eof: true })
  expect(await exec.wait()).toMatchObject({ exitCode: 0, signal: null })
  const output = await Array.fromAsync((await desktop.commands.connect(exec.id)).output())
  expect(output.map(({ bytes }) => new TextDecoder().decode(bytes)).join('')).toBe('one two')
  const endless = await desktop.commands.start('sleep 600')
  await endless.kill(15)
  expect((await endless.wait()).signal).toBe(15)
  expect((await desktop.commands.list()).map((one) => one.id)).toContain(endless.id)
  await endless.delete()
  await expect(endless.refresh()).rejects.toThrow('no such exec')
})

test('a command that is run to its end goes on over a sleep, takes a long input, and leaves nothing', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const client = createClient({ baseUrl: stack.replica.url, apiKey: stack.org.key })
  const desktop = await Desktop.connect(id, { client })
  const running = desktop.commands.run('echo x >/srv/began; sleep 2; echo done; exit 3', { timeoutMs: 600_000 })
  await waitFor('the command to begin', async () => (await stack.exec(id, 'cat /srv/began')).json.stdout === 'x\n')
  await stack.ask(id, 'hibernate')
  await stack.ask(id, 'wake')
  expect(await running).toMatchObject({ exitCode: 3, stdout: 'done\n', stdoutTruncated: false })
  const stdin = 'y'.repeat(1_500_000)
  const long = await desktop.commands.run('cat; echo THE END', { stdin })
  expect(long.stdoutTruncated).toBe(true)
  expect(long.stdout.startsWith('yyy')).toBe(true)
  expect(long.stdout.endsWith('yTHE END\n')).toBe(true)
  await expect(desktop.commands.run('echo so far; sleep 60', { timeoutMs: 1_000 })).rejects.toMatchObject({
    ...{ name: 'TimeoutError', code: 'guest_deadline' },
    problem: { stdout: 'so far\n' },
  })
  const aborted = new AbortController()
  const killed = desktop.commands.run('echo x >/srv/again; sleep 600', { signal: aborted.signal })
  await waitFor('it to begin', async () => (await stack.exec(id, 'cat /srv/again')).json.stdout === 'x\n')
  aborted.abort(new Error('enough'))
  await expect(killed).rejects.toThrow('enough')
  expect(await desktop.commands.list()).toEqual([])
})

test('a guest that is silent before anything was sent is 503 on every way in', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  stack.host.driver.faults.guestsSilent = true
  const at = `/v1/desktops/${id}`
  for (const [method, path, body] of [
    ['POST', 'exec', { command: 'true' }],
    ['POST', 'execs', { command: 'true' }],
    ['GET', 'execs', undefined],
    ['PUT', 'files/srv/x', 'x'],
    ['GET', 'entries?path=/srv', undefined],
    ['POST', 'uploads?path=/srv/x', undefined],
  ] as const) {
    const answer = await stack.api(method, `${at}/${path}`, { body })
    expect([path, answer.status, answer.json.code]).toEqual([path, 503, 'guest_unavailable'])
  }
  stack.host.driver.faults.guestsSilent = false
  expect((await stack.api('POST', `${at}/execs`, { body: { command: 'true' } })).status).toBe(201)
})
