// Guarantee: a guest's SSH server, whatever it sends, ends no process, sees no command unless it has the guest's key, and
// makes its host hold only a bounded amount of memory. (`npm run fuzz -- --mode ssh` tries more at random.)
import { once } from 'node:events'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import { newId } from '@dormouse/contract'
import type { Algorithms, ClientChannel, Connection, ServerChannel } from 'ssh2'
import { afterEach, describe, expect, test } from 'vitest'
import {
  type ConnectedServer,
  connectToServer,
  endOf,
  message,
  runOver,
  type ServerOptions,
  sayRaw,
  startServer,
} from '../testing/ssh-server.ts'
import { discardOutput } from './channels.ts'
import type { SshConnection } from './connection.ts'
import { newPair } from './keys.ts'
import { channelsToClose, logIn } from './login.ts'

const MiB = 1024 * 1024

const command = (timeoutSecs = 20) => {
  return { desktopId: newId(), generation: 1, command: 'true', cwd: null, env: {}, stdin: null, timeoutSecs }
}

const eof = (channel: number) => message(96, channel)
const data = (channel: number, text: string) => message(94, channel, text)
const moreData = (channel: number, text: string) => message(95, channel, 1, text)
const exited = (channel: number) => message(98, channel, 'exit-status', Buffer.from([0]), 0)
const closed = (channel: number) => message(97, channel)

const socketOf = (client: Connection) => (client as unknown as { _sock: Socket })._sock

let guest: ConnectedServer
afterEach(() => guest.close())

async function connected(answer: (channel: ServerChannel, script: string) => void, options?: ServerOptions) {
  guest = await connectToServer(answer, options)
  return guest.connection
}

/** Sends all of this on each channel, and closes it. */
const sending =
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
    const connection = await connected(sending(...messages))
    await expect(runOver(connection, command(1))).rejects.toMatchObject({ refusal: true })
    connection.probe()
    await expect(connection.openChannel('true', discardOutput)).resolves.toBeUndefined()
  })

  test('by what it sends on a channel before it starts the command there', async () => {
    const connection = await connected(sending(), {
      early: (client, n) => {
        for (const one of [eof(n), moreData(n, 'a'), data(n, 'b')]) sayRaw(client, one)
      },
    })
    await expect(runOver(connection, command(1))).rejects.toMatchObject({ refusal: true })
  })
})

describe('without the guest’s key', () => {
  test('a server gets no command, and no user name', async () => {
    const heard: string[] = []
    const exchanged: string[] = []
    const other = 'A'.repeat(68)
    guest = await startServer((_channel, script) => heard.push(script), {
      known: () => other,
      agent: {
        run: async (script) => {
          exchanged.push(script)
          const stdout = Buffer.from(`ssh-ed25519 ${other}\n`)
          return { exitCode: 0, signal: undefined, stdout, stderr: Buffer.alloc(0) }
        },
      },
    })
    guest.server.on('connection', (client) => client.on('authentication', () => heard.push('user name')))
    await expect(guest.connection.connect()).rejects.toMatchObject({ code: 'guest_unavailable' })
    expect([heard, guest.connection.isConnected]).toEqual([[], false])
    // The keys were exchanged again, and the guest has no other key.
    expect(exchanged).toHaveLength(1)
  })
})

describe('what its host holds is bounded', () => {
  /** A connection, and its other end. */
  async function bothEnds(options: ServerOptions = {}, answer: (channel: ServerChannel) => void = () => undefined) {
    guest = await startServer(answer, options)
    const coming = once(guest.server, 'connection')
    await guest.connection.connect()
    return { connection: guest.connection, client: (await coming)[0] as Connection }
  }

  /** Opens a channel whose output nobody reads, and returns its end in the guest. */
  async function paused(connection: SshConnection, opened: ServerChannel[]): Promise<number> {
    await connection.openChannel('cat', (channel) => void channel.pause())
    return endOf(opened.at(-1)!).number
  }

  test('output above the window that it was granted', async () => {
    const opened: ServerChannel[] = []
    const { connection, client } = await bothEnds({}, (channel) => opened.push(channel))
    const message = data(await paused(connection, opened), 'x'.repeat(30_000))
    for (let i = 0; i < 300 && connection.isConnected; i++) {
      sayRaw(client, message)
      if (i % 16 === 0) await setImmediate()
    }
    await expect.poll(() => connection.isConnected).toBe(false)
  })

  test('output that is not read, one byte at a time: that channel alone is closed', async () => {
    const opened: ServerChannel[] = []
    const { connection, client } = await bothEnds({}, (channel) => opened.push(channel))
    let isClosed = false
    await connection.openChannel('cat', (channel) => {
      channel.pause().on('close', () => {
        isClosed = true
      })
    })
    const message = data(endOf(opened[0]!).number, 'x')
    for (let i = 0; i < 20_000 && !isClosed; i++) {
      sayRaw(client, message)
      if (i % 256 === 0) await setImmediate()
    }
    await expect.poll(() => isClosed).toBe(true)
    await expect(connection.openChannel('true', discardOutput)).resolves.toBeUndefined()
  })

  test.each([
    ['a window for each of 90 channels', 90, 4 * MiB, []],
    ['much more memory than bytes on one of them', 1, 33 * MiB, [0]],
    ['that on each of them', 90, 33 * MiB, 'all'],
  ])('%s', (_what, count, heldBytes, closed) => {
    const channels = Array.from({ length: count }, () => ({}) as ClientChannel)
    const closing = channelsToClose(channels.map((channel) => ({ channel, bytes: 1 * MiB, heldBytes })))
    expect(closing === 'all' ? 'all' : closing.map((one) => channels.indexOf(one))).toEqual(closed)
  })

  test('forty readers that pause get every byte, and a command meanwhile runs', async () => {
    const bytes = 3 * MiB
    const stalled = new Set<ServerChannel>()
    const { connection } = await bothEnds({}, (channel) => {
      if (!channel.write(Buffer.alloc(bytes, 'x'))) stalled.add(channel)
      channel.exit(0)
      channel.end()
    })
    const read: Promise<number>[] = []
    const resume: (() => void)[] = []
    for (let i = 0; i < 40; i++) {
      await connection.openChannel('cat', (channel) => {
        let got = 0
        channel.on('data', (chunk: Buffer) => {
          got += chunk.length
        })
        channel.pause()
        resume.push(() => channel.resume())
        read.push(once(channel, 'close').then(() => got))
      })
    }
    await expect.poll(() => stalled.size).toBeGreaterThanOrEqual(40)
    await expect(connection.openChannel('true', discardOutput)).resolves.toBeUndefined()
    for (const one of resume) one()
    expect(new Set(await Promise.all(read))).toEqual(new Set([bytes]))
    expect(connection.isConnected).toBe(true)
  })

  test('channels that it never closes', async () => {
    const { connection } = await bothEnds({}, (channel) => channel.exit(0))
    const opened = await Promise.allSettled(
      Array.from({ length: 300 }, () => connection.openChannel('true', discardOutput)),
    )
    expect(opened.filter(({ status }) => status === 'fulfilled').length).toBeLessThanOrEqual(256)
    const next = () => connection.openChannel('true', discardOutput).then(String, (error) => error.code)
    await expect.poll(next).toBe('guest_unavailable')
    expect(connection.isConnected).toBe(false)
  })

  test('answers that it requests and does not read', async () => {
    guest = await startServer(() => undefined)
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

  test('a connection that it ends and does not close', async () => {
    const { connection, client } = await bothEnds()
    socketOf(client).allowHalfOpen = true
    sayRaw(client, message(1, 11, '', ''))
    await expect.poll(() => connection.isConnected).toBe(false)
    socketOf(client).destroy()
  })

  test('other keys that it offers: it is not asked to prove them', async () => {
    const heard: string[] = []
    const { connection, client } = await bothEnds({
      config: { ident: 'OpenSSH_9.2', debug: (text) => heard.push(text) },
    })
    const key = Buffer.from(guest.hostKey, 'base64')
    sayRaw(client, message(80, 'hostkeys-00@openssh.com', Buffer.from([0]), key.length, key))
    void connection.openChannel('true', discardOutput).catch(() => undefined)
    await expect.poll(() => heard.filter((text) => /CHANNEL_OPEN/.test(text))).not.toEqual([])
    expect(heard.filter((text) => /hostkeys-prove/.test(text))).toEqual([])
  })

  test.each([
    ['a group that it generates', 'key exchange', { kex: ['diffie-hellman-group-exchange-sha256'] }],
    ['compression', 'compression', { compress: ['zlib', 'zlib@openssh.com'] }],
  ])('the cost of %s: it is not negotiated', async (_what, reason, algorithms) => {
    guest = await startServer(() => undefined, { config: { algorithms: algorithms as Algorithms } })
    const refused = Promise.withResolvers<string>()
    guest.server.on('connection', (client: Connection) => client.on('error', (error) => refused.resolve(error.message)))
    await expect(guest.connection.connect()).rejects.toMatchObject({ code: 'guest_unavailable' })
    expect(await refused.promise).toContain(reason)
  })
})
