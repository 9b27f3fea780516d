// Guarantee: one WebSocket carries an exec's output, input, sizes, signals and end; attaching again from an offset loses and
// repeats no byte; it lasts no longer than its credential and its desktop's wakefulness; a slow reader costs no memory.
import type { Socket } from 'node:net'
import { createClient, Desktop } from '@dormouse/client'
import { newId } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'
import { ExecClient } from './parts/exec-client.ts'
import { RfbClient } from './parts/rfb-client.ts'

async function started(stack: Stack, id: string, body: object): Promise<string> {
  const { json } = await stack.api('POST', `/v1/desktops/${id}/execs`, { body })
  return `/v1/desktops/${id}/execs/${json.id}`
}

test('a program types, gets both streams, sends signals and sees the end, on any replica; a browser’s way to send a credential works', async () => {
  await using stack = await Stack.start({ replicas: 2 })
  const { id } = await stack.desktop('awake')
  const path = await started(stack, id, { command: 'cat; echo err >&2; exit 3', stdin: true })
  const first = new ExecClient(`${stack.url}${path}/attach`, stack.org.key)
  await first.note('attached')
  first.type('one ')
  expect(await first.note('accepted')).toEqual({ accepted: 4 })
  first.socket.terminate()
  const bearer = `dormouse.bearer.${Buffer.from(stack.org.key).toString('base64url')}`
  const second = new ExecClient(`${stack.replicas[1]!.url}${path}/attach`, undefined, ['dormouse.exec.v1', bearer])
  expect(await second.note('attached')).toMatchObject({ attached: { stdin: 4, stdout: 0, stderr: 0 } })
  second.type('two')
  second.ask({ resize: { cols: 100, rows: 30 } })
  second.ask({ eof: true })
  expect((await second.note('exit')).exit).toMatchObject({ state: 'exited', exit_code: 3, stdout: { end: 7 } })
  expect(await second.closed).toEqual({ code: 1000, reason: 'the exec has ended' })
  expect([second.socket.protocol, String(second.said.stdout), String(second.said.stderr)]).toEqual([
    'dormouse.exec.v1',
    'one two',
    'err\n',
  ])
  const rest = new ExecClient(`${stack.url}${path}/attach?offset=3&stderr_offset=4`, stack.org.key)
  await rest.closed
  expect([String(rest.said.stdout), String(rest.said.stderr)]).toEqual([' two', ''])
  const other = await started(stack, id, { command: 'sleep 600' })
  const endless = new ExecClient(`${stack.url}${other}/attach`, stack.org.key)
  await endless.note('attached')
  endless.ask({ signal: 15 })
  expect((await endless.note('exit')).exit).toMatchObject({ exit_code: null, signal: 15 })
})

test('what may not attach is refused before the upgrade, and what is not of the protocol closes the socket', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const path = await started(stack, id, { command: 'cat', stdin: true })
  const codeOf = async (url: string, key: string | undefined, protocols?: string[]) =>
    (await new ExecClient(`${stack.url}${url}`, key, protocols).closed).code
  const unknown = `/v1/desktops/${id}/execs/${newId()}/attach`
  const { key } = stack.org
  const codes = await Promise.all([
    codeOf(`${path}/attach`, undefined),
    codeOf(`${path}/attach`, undefined, ['dormouse.exec.v1', 'dormouse.bearer.bm9wZQ']),
    codeOf(`${path}/attach`, (await stack.otherOrg).key),
    codeOf(unknown, key),
    codeOf('/v1/desktops/x/execs/y/attach', key),
    codeOf(`${path}/attach?window=1`, key),
    codeOf(`${path}/attach?offset=1`, key),
  ])
  expect(codes).toEqual([401, 401, 404, 404, 400, 400, 409])
  const plain = await stack.api('GET', `${path}/attach`)
  expect([plain.status, plain.json.code, plain.headers.upgrade]).toEqual([426, 'upgrade_required', 'websocket'])
  for (const [channel, text] of [
    [0, 'x'.repeat(262_145)],
    [1, 'x'],
    [3, '{"resize":{"cols":0,"rows":1}}'],
    [3, 'no'],
  ] as const) {
    const client = new ExecClient(`${stack.url}${path}/attach`, key)
    await client.note('attached')
    client.send(channel, text)
    expect((await client.closed).code).toBe(1008)
    expect(client.notes.at(-1)).toMatchObject({ end: { cause: 'unreadable' } })
  }
  expect((await stack.api('GET', path)).json.stdin).toEqual({ end: 0, open: true })
})

test('a sleep, a deletion and a revoked key end a socket with their own codes; the exec goes on after a sleep', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const { principals } = stack.replica.parts
  const leaving = await principals.createKey(stack.org.id, 'leaving')
  const path = await started(stack, id, { command: 'cat', stdin: true })
  const attach = (key: string) => new ExecClient(`${stack.url}${path}/attach`, key)
  const revoked = attach(leaving.api_key)
  await revoked.note('attached')
  await principals.revokeKey(leaving.id)
  expect(await revoked.closed).toMatchObject({ code: 4004 })
  const asleep = attach(stack.org.key)
  await asleep.note('attached')
  await stack.ask(id, 'hibernate')
  expect(await asleep.closed).toMatchObject({ code: 4002 })
  expect((await attach(stack.org.key).closed).code).toBe(409)
  await stack.ask(id, 'wake')
  const again = attach(stack.org.key)
  await again.note('attached')
  again.ask({ signal: 15 })
  expect((await again.note('exit')).exit.signal).toBe(15)
  const other = await started(stack, id, { command: 'sleep 600' })
  const deleted = new ExecClient(`${stack.url}${other}/attach`, stack.org.key)
  await deleted.note('attached')
  await stack.api('DELETE', other)
  expect([1000, 4007]).toContain((await deleted.closed).code)
})

test('the SDK’s terminal pastes and reads over cut sockets, without a lost or repeated byte, and holds nothing here', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const opened: WebSocket[] = []
  class Noted extends WebSocket {
    constructor(...given: ConstructorParameters<typeof WebSocket>) {
      super(...given)
      opened.push(this)
    }
  }
  const client = createClient({ baseUrl: stack.url, apiKey: stack.org.key, webSocket: Noted })
  const desktop = await Desktop.connect(id, { client })
  const paste = Array.from({ length: 20_000 }, (_, n) => `${n}`.padStart(15, '0')).join('\n')
  const ready = 'ready\n'
  const command = `stty raw -echo; echo ready; head -c ${paste.length}; exit 5`
  const exec = await desktop.commands.start(command, { tty: { cols: 80, rows: 24 } })
  const terminal = exec.attach()
  terminal.resize({ cols: 100, rows: 30 })
  let pasted: Promise<unknown> | undefined
  let said = ''
  let cuts = 0
  const { wings, heldBytes } = stack.replica.parts
  for await (const { bytes, offset } of terminal.output) {
    expect(offset).toBe(said.length)
    said += new TextDecoder().decode(bytes)
    if (said === ready) pasted = terminal.write(paste)
    if (cuts === 2 || said.length <= ready.length) continue
    // What comes while the reader pauses and nothing is attached is kept by the guest.
    cuts++
    opened.at(-1)!.close()
    await waitFor('the socket to be cut', () => wings.terminals.attachments.open === 0)
  }
  await pasted
  expect(said).toBe(ready + paste)
  expect([terminal.exit?.exit_code, cuts, opened.length]).toEqual([5, 2, 3])
  await waitFor('the last socket to be closed', () => wings.terminals.attachments.open === 0)
  expect(heldBytes.count).toBe(0)
})

test('unfinished messages are counted for the credential, on terminals and screens: above the limit a socket is closed, and the rest works', async () => {
  await using stack = await Stack.start({ controlPlane: { maxHeldMiBPerCredential: 1 } })
  const { id } = await stack.desktop('awake')
  const path = await started(stack, id, { command: 'cat', stdin: true })
  const { json } = await stack.api('POST', `/v1/desktops/${id}/stream`, { body: { claim: 'control' } })
  const screen = RfbClient.dial(json.websocket_url)
  const clients = Array.from({ length: 8 }, () => new ExecClient(`${stack.url}${path}/attach`, stack.org.key))
  for (const client of clients) await client.note('attached')
  const held = () => stack.replica.parts.heldBytes.count
  // All but the end of a message, which is longer than the frame with which a client answers a close.
  const unfinished = (bytes: number) => {
    const head = Buffer.from([0x82, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
    head.writeUInt32BE(bytes, 6)
    return Buffer.concat([head, Buffer.alloc(bytes - 1_000)])
  }
  const rawOf = ({ socket }: { socket: object }) => (socket as { _socket: Socket })._socket
  rawOf(screen).write(unfinished(500_000))
  await waitFor('the screen’s message to be counted', () => held() > 450_000)
  for (const client of clients) rawOf(client).write(unfinished(250_000))
  const codes = await Promise.all(clients.slice(2).map(async (client) => (await client.closed).code))
  expect(codes.filter((code) => code === 1013).length).toBeGreaterThan(0)
  expect(held()).toBeLessThanOrEqual(1024 * 1024)
  for (const client of clients) client.socket.terminate()
  screen.socket.terminate()
  await waitFor('everything to be released', () => held() === 0)
  const long = new ExecClient(`${stack.url}${path}/attach`, stack.org.key)
  await long.note('attached')
  rawOf(long).write(unfinished(4 * 1024 * 1024 - 16).subarray(0, 14))
  expect((await long.closed).code).toBe(1009)
})
