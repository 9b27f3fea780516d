// Guarantee: the calls of a guest's program are answered also while others wait, whatever is lost is asked again if it may be, and what is
// no answer is refused. The real program runs here, on this machine, as in a guest.

import { once } from 'node:events'
import type { Socket } from 'node:net'
import { newId } from '@dormouse/contract'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { GuestTransport } from '../driver/guest-transport.ts'
import { GuestCalls } from '../ssh/calls.ts'
import { until } from '../testing/bench.ts'
import { type ConnectedShells, connectToServer, connectToShells } from '../testing/ssh-server.ts'
import { GuestExecs } from './execs.ts'
import { FollowedOutputs } from './followed-output.ts'

const execs = new GuestExecs()
let guest: ConnectedShells
let calls: GuestTransport
beforeEach(async () => {
  guest = await connectToShells()
  calls = new GuestCalls(guest.connection) as unknown as GuestTransport
})
afterEach(async () => {
  for (const { id } of await execs.list(calls)) await execs.remove(calls, { id })
  guest.close()
})

async function start(command: string, more = {}): Promise<{ id: string }> {
  const one = { id: newId() }
  await execs.start(calls, { ...one, command, env: {}, ...more })
  return one
}

const read = async (one: { id: string }, offset = 0) => {
  const how = { stream: 'stdout' as const, offset, max_bytes: 720 * 1024, wait_ms: 10_000 }
  const { exec, data } = await execs.read(calls, 'desktop', { ...one, ...how })
  return { exec, text: Buffer.from(data, 'base64').toString() }
}

test('one that waits holds up no other, and gets what another writes', async () => {
  const one = await start('read line; echo "$line"', { stdin: true })
  const waits = read(one)
  const many = await Promise.all(Array.from({ length: 40 }, () => execs.get(calls, one)))
  expect(new Set(many.map(({ state }) => state))).toEqual(new Set(['running']))
  const data = Buffer.from('a line\n').toString('base64')
  expect(await execs.write(calls, { ...one, offset: 0, data, eof: true, wait_ms: 1_000 })).toEqual({
    end: 7,
    gap: false,
  })
  expect((await waits).text).toBe('a line\n')
})

test('long output comes whole', async () => {
  const one = await start('yes 0123456789abcde | head -c 1600000')
  let text = ''
  for (;;) {
    const part = await read(one, text.length)
    text += part.text
    if (part.text === '' && part.exec.state === 'exited') break
  }
  expect(text).toBe('0123456789abcde\n'.repeat(100_000))
})

const line = '0123456789abcde\n'

test('two readers at once, and one that asks again, get every byte', async () => {
  const one = await start(`yes ${line.trim()} | head -c 3200000`)
  const readAll = async (repeats: boolean) => {
    for (let text = ''; ; ) {
      const part = await read(one, text.length)
      if (repeats) expect((await read(one, text.length)).text.startsWith(part.text.slice(0, 1_000))).toBe(true)
      text += part.text
      if (part.text === '' && part.exec.state === 'exited') return text
    }
  }
  for (const text of await Promise.all([readAll(false), readAll(true)])) expect(text).toBe(line.repeat(200_000))
})

test('a guest sends a reader only so much ahead, waits for one that pauses, and ends once it has left', async () => {
  const one = await start(`yes ${line.trim()} | head -c 8000000; sleep 60`)
  await until(async () => (await execs.get(calls, one)).stdout.end === 8_000_000)
  const followed = new FollowedOutputs({ idleMs: 200 })
  const part = (offset: number) =>
    followed.read(calls, 'desktop', { ...one, stream: 'stdout', offset, max_bytes: 720 * 1024, wait_ms: 10_000 })
  const sent = () => (guest.shells.at(-1)!.process.stdout as Socket).bytesRead
  const before = sent()
  let size = Buffer.from((await part(0))!.data, 'base64').length
  await until(async () => sent() - before > 1024 * 1024)
  for (let reads = 0; reads < 3; reads++) {
    expect(sent() - before - size).toBeLessThan(1.5 * 1024 * 1024)
    size += Buffer.from((await part(size))!.data, 'base64').length
  }
  await until(() => (calls as unknown as GuestCalls).idleChannels === 1)
})

test('a start is repeated with its id and starts nothing twice; signals are not repeated', async () => {
  const one = await start('trap "echo usr" USR1; while :; do sleep 0.1; done')
  expect((await execs.list(calls)).map(({ id }) => id)).toEqual([one.id])
  const waits = read(one)
  await execs.signal(calls, { ...one, signal: 10 })
  expect((await waits).text).toBe('usr\n')
  await execs.remove(calls, one)
  await execs.remove(calls, one)
  await expect(execs.get(calls, one)).rejects.toMatchObject({ code: 'exec_unknown' })
})

test('a call whose program dies, or whose connection is lost, is asked again', async () => {
  const one = await start('sleep 1; echo done')
  for (const lose of [() => guest.shells.at(-1)!.process.kill('SIGKILL'), () => guest.connection.close()]) {
    const waits = read(one)
    await execs.get(calls, one)
    lose()
    expect((await waits).text).toBe('done\n')
  }
})

test('an operation that takes too long is ended in the guest, and others go on', async () => {
  const one = await start('sleep 20')
  const words = ['execs', 'read', one.id, 'out', 0, 1, 20_000]
  const late = calls.call({ words, timeoutSecs: 1 })
  await expect(late).rejects.toMatchObject({ code: 'guest_deadline' })
  expect((await execs.get(calls, one)).state).toBe('running')
  expect(guest.shells).toHaveLength(1)
})

test.each(['1 3\nno 1 0\n2 5\nhello', '7 0\n', '1 99999\n', 'x'.repeat(100)])(
  'a guest that answers %j is refused',
  async (answer) => {
    const strange = await connectToServer((channel, script) => {
      const start = /^echo "(.*) \$\$"/.exec(script)![1]
      channel.once('data', () => channel.write(answer))
      channel.write(`${start} 1\n`)
    })
    const asked = execs.list(new GuestCalls(strange.connection) as unknown as GuestTransport)
    await expect(asked).rejects.toMatchObject({ code: 'guest_unavailable' })
    strange.close()
  },
)

test('the channel ends with its connection, and is opened again', async () => {
  await start('true')
  const [first] = guest.shells
  guest.connection.close()
  await once(first!.process, 'close')
  await execs.list(calls)
  expect(guest.shells).toHaveLength(2)
})
