// Guarantee: a guest's SSH server, whatever it says, ends no process, learns no command unless it has the guest's key, and
// makes its host hold no more than a bounded part of its memory. (`npm run fuzz -- --mode ssh` goes on with chance.)
import { once } from 'node:events'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import { newId } from '@dormouse/contract'
import type { Algorithms, Connection, ServerChannel } from 'ssh2'
import { afterEach, describe, expect, test } from 'vitest'
import {
  endOf,
  type LineToServer,
  lineToServer,
  lineTowardsServer,
  message,
  type ServerWish,
  sayRaw,
} from '../testing/ssh-server.ts'
import { drain } from './channels.ts'
import { logIn } from './client.ts'
import { execOverSsh } from './exec.ts'
import { newPair } from './keys.ts'

const command = (timeoutSecs = 20) => {
  return { desktopId: newId(), generation: 1, command: 'true', cwd: null, env: {}, stdin: null, timeoutSecs }
}

const eof = (channel: number) => message(96, channel)
const data = (channel: number, text: string) => message(94, channel, text)
const moreData = (channel: number, text: string) => message(95, channel, 1, text)
const exited = (channel: number) => message(98, channel, 'exit-status', Buffer.from([0]), 0)
const closed = (channel: number) => message(97, channel)

const socketOf = (client: Connection) => (client as unknown as { _sock: Socket })._sock

let guest: LineToServer
afterEach(() => guest.close())

async function connected(answer: (channel: ServerChannel, script: string) => void, wish?: ServerWish) {
  guest = await lineToServer(answer, wish)
  return guest.line
}

/** Says all of this on each channel, and lets go of it. */
const saying =
  (...messages: ((channel: number) => Buffer)[]) =>
  (channel: ServerChannel) => {
    const { client, number } = endOf(channel)
    for (const one of [...messages, exited, closed]) sayRaw(client, one(number))
  }

describe('ends no process', () => {
  test.each([
    ['output after its end', [eof, (n: number) => data(n, 'more')]],
    ['errors after their end', [eof, (n: number) => moreData(n, 'more')]],
    ['both, again and again', [eof, eof, (n: number) => moreData(n, 'a'), (n: number) => data(n, 'b'), eof]],
  ])('by %s', async (_what, messages) => {
    const line = await connected(saying(...messages))
    await expect(execOverSsh(line, command(1))).rejects.toMatchObject({ refusal: true })
    line.probe()
    await expect(line.open('true', drain)).resolves.toBeUndefined()
  })

  test('by what it says on a channel before it begins the command there', async () => {
    const line = await connected(saying(), {
      early: (client, n) => {
        for (const one of [eof(n), moreData(n, 'a'), data(n, 'b')]) sayRaw(client, one)
      },
    })
    await expect(execOverSsh(line, command(1))).rejects.toMatchObject({ refusal: true })
  })
})

describe('without the guest’s key', () => {
  test('a server gets no command, and is not told who we are', async () => {
    const heard: string[] = []
    const exchanged: string[] = []
    const other = 'A'.repeat(68)
    guest = await lineTowardsServer((_channel, script) => heard.push(script), {
      known: () => other,
      agent: {
        exec: async (asked) => {
          exchanged.push(String(asked.command))
          return { exitCode: 0, stdout: `ssh-ed25519 ${other}\n` } as never
        },
      },
    })
    guest.server.on('connection', (client) => client.on('authentication', () => heard.push('who we are')))
    await expect(guest.line.connect()).rejects.toMatchObject({ code: 'guest_unavailable' })
    expect([heard, guest.line.connected]).toEqual([[], false])
    // The guest was asked for its key again, and has none but the one that is known.
    expect(exchanged).toHaveLength(1)
  })
})

describe('what its host holds is bounded', () => {
  /** A connection of which the guest's end is at hand. */
  async function bothEnds(wish: ServerWish = {}, answer: (channel: ServerChannel) => void = () => undefined) {
    guest = await lineTowardsServer(answer, wish)
    const coming = once(guest.server, 'connection')
    await guest.line.connect()
    return { line: guest.line, client: (await coming)[0] as Connection }
  }

  test.each([
    ['beyond the window that it was given', 1_500, 30_000],
    ['one byte at a time', 20_000, 1],
  ])('output that nobody reads, %s', async (_what, times, bytes) => {
    const opened = Promise.withResolvers<number>()
    const { line, client } = await bothEnds({}, (channel) => opened.resolve(endOf(channel).number))
    await line.open('cat', (channel) => void channel.pause())
    const message = data(await opened.promise, 'x'.repeat(bytes))
    for (let i = 0; i < times && line.connected; i++) {
      sayRaw(client, message)
      if (i % 256 === 0) await setImmediate()
    }
    await expect.poll(() => line.connected).toBe(false)
  })

  test('channels that it never closes', async () => {
    const { line } = await bothEnds({}, (channel) => channel.exit(0))
    const opened = await Promise.allSettled(Array.from({ length: 300 }, () => line.open('true', drain)))
    expect(opened.filter(({ status }) => status === 'fulfilled').length).toBeLessThanOrEqual(256)
    const next = () => line.open('true', drain).then(String, (error) => error.code)
    await expect.poll(next).toBe('guest_unavailable')
    expect(line.connected).toBe(false)
  })

  test('answers that it asks for and does not take', async () => {
    guest = await lineTowardsServer(() => undefined)
    const coming = once(guest.server, 'connection')
    const socket = connect((guest.server.address() as AddressInfo).port, '127.0.0.1')
    await logIn(socket, { privateKey: newPair().private, hostKey: guest.hostKey })
    const [client] = (await coming) as [Connection]
    socketOf(client).pause()
    socket.write(Buffer.alloc(200 * 1024 * 1024))
    expect(socket.destroyed).toBe(false)
    sayRaw(client, message(2, ''))
    await expect.poll(() => socket.destroyed).toBe(true)
  })

  test('a connection that it says goodbye to, and keeps', async () => {
    const { line, client } = await bothEnds()
    socketOf(client).allowHalfOpen = true
    sayRaw(client, message(1, 11, '', ''))
    await expect.poll(() => line.connected).toBe(false)
    socketOf(client).destroy()
  })

  test('other keys that it says it has: it is not asked to prove them', async () => {
    const heard: string[] = []
    const { line, client } = await bothEnds({
      config: { ident: 'OpenSSH_9.2', debug: (words) => heard.push(words) },
    })
    const key = Buffer.from(guest.hostKey, 'base64')
    sayRaw(client, message(80, 'hostkeys-00@openssh.com', Buffer.from([0]), key.length, key))
    void line.open('true', drain).catch(() => undefined)
    await expect.poll(() => heard.filter((words) => /CHANNEL_OPEN/.test(words))).not.toEqual([])
    expect(heard.filter((words) => /hostkeys-prove/.test(words))).toEqual([])
  })

  test.each([
    ['a group of its own making', 'key exchange', { kex: ['diffie-hellman-group-exchange-sha256'] }],
    ['compression', 'compression', { compress: ['zlib', 'zlib@openssh.com'] }],
  ])('the work of %s: it is not agreed to', async (_what, words, algorithms) => {
    guest = await lineTowardsServer(() => undefined, { config: { algorithms: algorithms as Algorithms } })
    const refused = Promise.withResolvers<string>()
    guest.server.on('connection', (client: Connection) => client.on('error', (error) => refused.resolve(error.message)))
    await expect(guest.line.connect()).rejects.toMatchObject({ code: 'guest_unavailable' })
    expect(await refused.promise).toContain(words)
  })
})
