// Guarantee: a command's result is its own, and if there can be none, the status says why.
import { factsOf, refusalCode } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'

test('exit code, both streams and input are the command’s; a non-zero exit is a 200', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const plain = await stack.exec(id, 'echo out; echo err >&2; exit 7')
  expect(plain.status).toBe(200)
  expect(plain.json).toMatchObject({ exit_code: 7, signal: null, stdout: 'out\n', stderr: 'err\n' })
  expect(plain.json).toMatchObject({ stdout_truncated: false, stderr_truncated: false })
  expect((await stack.exec(id, ['echo', 'a b', '$HOME'])).json.stdout).toBe('a b $HOME\n')
  expect((await stack.exec(id, 'cat', { stdin: 'given' })).json.stdout).toBe('given')
  expect((await stack.exec(id, 'echo $WORD', { env: { WORD: 'said' } })).json.stdout).toBe('said\n')
  expect((await stack.exec(id, 'true', { timeout_secs: 100_000 })).status).toBe(200)
  for (const name of ['constructor', '__proto__', 'toString']) {
    expect((await stack.exec(id, name)).json).toMatchObject({ exit_code: 127 })
    expect((await stack.exec(id, [name])).json).toMatchObject({ code: 'command_not_run' })
  }
  const { detail } = (await stack.exec(id, ['no-such'], { cwd: '/tmp' })).json
  expect(detail).toBe('the guest has no program "no-such"; check its name, and PATH')
})

test('a command that passes its deadline is 504, and the desktop is still of use', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const late = await stack.exec(id, 'sleep 60', { timeout_secs: 1 })
  expect([late.status, late.json.code]).toEqual([504, 'guest_deadline'])
  const key = { 'idempotency-key': 'late' }
  const full = 'x'.repeat(80_000)
  await stack.api('PUT', `/v1/desktops/${id}/files/srv/long`, { body: full })
  for (const headers of [{}, key, key]) {
    const body = { command: 'echo out; echo err >&2; cat /srv/long; sleep 60', timeout_secs: 1 }
    const { status, json } = await stack.api('POST', `/v1/desktops/${id}/exec`, { body, headers })
    expect([status, json.code, json.stderr]).toEqual([504, 'guest_deadline', 'err\n'])
    expect([json.stdout, json.stdout_truncated, json.stderr_truncated]).toEqual([
      `out\n${full}`.slice(0, 65_536),
      true,
      false,
    ])
  }
  expect((await stack.exec(id, 'echo on')).json.stdout).toBe('on\n')
})

test('a host that is away is 503 with Retry-After, and at once when it goes in the middle of a command', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const before = stack.host.driver.faults.counts.exec ?? 0
  const running = stack.exec(id, 'sleep 30', { timeout_secs: 60 })
  await waitFor('the command to run', () => (stack.host.driver.faults.counts.exec ?? 0) > before)
  await stack.replica.parts.links.disconnect(stack.host.id, 'cut by the test')
  const cut = await running
  expect([cut.status, cut.json.code]).toEqual([503, 'host_unreachable'])
  await stack.linked(stack.host)
  await stack.killAgent()
  const away = await stack.exec(id, 'true')
  expect([away.status, away.json.code]).toEqual([503, 'host_unreachable'])
  expect(Number(away.headers['retry-after'])).toBeGreaterThan(0)
})

test('a desktop that is asked more than it may takes nothing from its neighbours, nor from what wakes and hibernates', async () => {
  await using stack = await Stack.start()
  const [busy, other] = [(await stack.desktop('awake')).id, (await stack.desktop('awake')).id]
  const release = stack.host.driver.faults.hang('exec')
  const hanging = Array.from({ length: 70 }, () => stack.exec(busy, 'sleep 1'))
  const refused = hanging.map((each) => each.then(({ status, json }) => status === 503 && json.code))
  const first = await Promise.any(refused.map(async (each) => (await each) || Promise.reject(new Error('it ran'))))
  expect(first).toBe('guest_unavailable')
  await waitFor('the others to be begun', () => stack.host.driver.faults.counts.exec === 64)
  await stack.ask(other, 'hibernate')
  await stack.ask(other, 'wake')
  release()
  expect((await Promise.all(refused)).filter(Boolean)).toHaveLength(6)
  expect((await stack.exec(other, 'true')).status).toBe(200)
})

test('more than 300 s is 300 to the guest, nothing is 60, and neither is refused', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  for (const [asked, reaches] of [
    [undefined, 60],
    [null, 60],
    [1, 1],
    [300, 300],
    [301, 300],
    [Number.MAX_SAFE_INTEGER, 300],
  ]) {
    expect((await stack.exec(id, 'true', { timeout_secs: asked })).status).toBe(200)
    expect([asked, stack.host.driver.faults.lastExec?.timeoutSecs]).toEqual([asked, reaches])
  }
})

const inner = refusalCode.options.filter((code) => factsOf(code).internalOnly)

test('what a host says to us alone is never told to a caller, nor a fault: 503, and the next try is as good', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  expect(inner).toEqual(expect.arrayContaining(['stale_turn', 'unknown_desktop', 'hypervisor_failed', 'guest_silent']))
  for (const code of inner) {
    stack.host.driver.faults.failNext('exec', 1, code)
    const answer = await stack.exec(id, 'true')
    expect([code, answer.status, answer.json.code]).toEqual([code, 503, 'guest_unavailable'])
    expect(answer.headers['retry-after']).toBe('2')
    expect((await stack.exec(id, 'true')).status).toBe(200)
  }
})

test('a command that a sleep interrupts is 409 whether it has a key or not, and with its key the first run is answered', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const exec = (command: string, headers = {}) =>
    stack.api('POST', `/v1/desktops/${id}/exec`, { body: { command, timeout_secs: 30 }, headers })
  const run = (headers: Record<string, string>) => exec('echo x >>/srv/times; sleep 2; echo done; exit 3', headers)
  const times = async () => (await stack.exec(id, 'cat /srv/times')).json.stdout?.length ?? 0
  const keyed = { 'idempotency-key': 'once' }
  for (const headers of [{}, keyed]) {
    const before = await times()
    const answer = run(headers)
    await waitFor('the command to begin', async () => (await times()) > before)
    await stack.ask(id, 'hibernate')
    const { status, json, headers: sent } = await answer
    expect([status, json.code, sent['retry-after']]).toEqual([409, 'exec_interrupted', undefined])
    expect(json.detail).toContain('while the command ran')
    expect(typeof json.exec_id).toBe(headers === keyed ? 'string' : 'undefined')
    await stack.ask(id, 'wake')
  }
  const began = await times()
  for (const replayed of ['true', 'true']) {
    const again = await run(keyed)
    expect([again.status, again.json.exit_code, again.json.stdout]).toEqual([200, 3, 'done\n'])
    expect(again.headers['idempotency-replayed']).toBe(replayed)
  }
  const other = await exec('echo other', keyed)
  expect([other.headers['idempotency-replayed'], other.json.stdout]).toEqual(['mismatch', 'done\n'])
  expect(await times()).toBe(began)
})

test('a command with a key runs once over a lost link, a killed agent and a new leader; without one the answer says that it may have begun', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const run = (headers: Record<string, string>, stdin = '') =>
    stack.api('POST', `/v1/desktops/${id}/exec`, {
      body: { command: 'cat >>/srv/times; echo ran; echo err >&2', stdin: `x${stdin}` },
      headers,
    })
  const times = async () => (await stack.exec(id, 'cat /srv/times')).json.stdout
  const cut = () => stack.replica.parts.links.disconnect(stack.host.id, 'cut by the test')
  stack.host.failpoints.set('command.before-reply', cut)
  const lost = await run({})
  expect([lost.status, lost.json.code]).toEqual([503, 'host_unreachable'])
  expect(lost.json.detail).toContain('may have begun')
  await stack.linked(stack.host)
  const keyed = { 'idempotency-key': 'cut' }
  expect((await run(keyed)).status).toBe(503)
  stack.host.failpoints.set('command.before-reply', undefined)
  await stack.linked(stack.host)
  const again = await run(keyed)
  expect(again.json).toMatchObject({ exit_code: 0, stdout: 'ran\n', stderr: 'err\n', stdout_truncated: false })
  await stack.killAgent()
  const away = await run({ 'idempotency-key': 'away' })
  expect([away.status, away.json.code, /begun/.test(away.json.detail)]).toEqual([503, 'host_unreachable', false])
  await stack.restartAgent()
  expect((await run(keyed)).json.stdout).toBe('ran\n')
  expect(await times()).toBe('xx')
  const long = 'y'.repeat(1_000_000)
  expect((await run({ 'idempotency-key': 'long' }, long)).json.exit_code).toBe(0)
  expect((await times()).length).toBe(3 + long.length)
})

test('a start without a key whose answer is lost names its exec, and is no answer to repeat', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const execs = `/v1/desktops/${id}/execs`
  stack.host.failpoints.set('command.before-reply', () =>
    stack.replica.parts.links.disconnect(stack.host.id, 'cut by the test'),
  )
  const { status, json } = await stack.api('POST', execs, { body: { command: 'echo x >>/srv/times' } })
  expect([status, json.code]).toEqual([409, 'exec_interrupted'])
  stack.host.failpoints.set('command.before-reply', undefined)
  await stack.linked(stack.host)
  expect((await stack.api('GET', `${execs}/${json.exec_id}`)).json.id).toBe(json.exec_id)
})

test('what is longer than Linux takes is 400 with the limit, for both kinds of commands, and a terminal has a TERM', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const long = 'x'.repeat(131_072)
  for (const route of ['exec', 'execs']) {
    for (const [body, field] of [
      [{ command: long }, 'command'],
      [{ command: ['echo', long] }, 'command.1'],
      [{ command: 'true', env: { LONG: long } }, 'env.LONG'],
      [{ command: Array(200_000).fill('x') }, 'command'],
    ] as const) {
      const { status, json } = await stack.api('POST', `/v1/desktops/${id}/${route}`, { body })
      expect([status, json.code, json.field]).toEqual([400, 'invalid_request', field])
      expect(json.detail).toMatch(/at most [\d]+ bytes/)
    }
  }
  const execs = `/v1/desktops/${id}/execs`
  for (const [env, term] of [
    [undefined, 'xterm-256color'],
    [{ TERM: 'vt100' }, 'vt100'],
  ]) {
    const body = { command: 'echo $TERM', tty: { cols: 80, rows: 24 }, env }
    const { json: exec } = await stack.api('POST', execs, { body })
    await stack.api('POST', `${execs}/${exec.id}/stdin?offset=0&eof=true`, { body: '' })
    expect((await stack.api('GET', `${execs}/${exec.id}/output?wait_secs=30`)).text).toBe(`${term}\r\n`)
  }
})
