// A guest's SSH server without our code in between: the baseline that commands and files are measured against.
import { createReadStream, createWriteStream } from 'node:fs'
import { connect } from 'node:net'
import { pipeline } from 'node:stream/promises'
import ssh2, { type Client, type ClientChannel } from 'ssh2'
import { shakeHands } from '../ssh/handshake.ts'
import type { GuestKeys } from '../ssh/keys.ts'

export interface RawSsh {
  /** Runs a command to its end. */
  exec(command: string): Promise<void>
  /** Starts a command, in a terminal if asked. */
  start(command: string, terminal: boolean): Promise<ClientChannel>
  /** Files of this host, through `cat`. */
  put(from: string, to: string): Promise<void>
  get(from: string, to: string): Promise<void>
  close(): void
}

export async function rawSsh(socketPath: string, { privateKey }: GuestKeys): Promise<RawSsh> {
  const socket = connect(socketPath)
  await shakeHands(socket, 10_000)
  const client: Client = new ssh2.Client()
  const ready = new Promise<void>((resolve, reject) => client.once('ready', resolve).once('error', reject))
  client.connect({ sock: socket, username: 'root', privateKey })
  await ready
  const start = (command: string, pty = false) =>
    new Promise<ClientChannel>((resolve, reject) =>
      client.exec(command, { pty }, (error, channel) => (error ? reject(error) : resolve(channel))),
    )
  const ended = (channel: ClientChannel) => new Promise<void>((resolve) => channel.once('close', () => resolve()))
  return {
    exec: async (command) => ended((await start(command)).resume()),
    start,
    put: async (from, to) => {
      const channel = await start(`cat >'${to}'`)
      const whole = ended(channel.resume())
      await pipeline(createReadStream(from), channel)
      await whole
    },
    get: async (from, to) => pipeline(await start(`cat '${from}'`), createWriteStream(to)),
    close: () => void client.destroy(),
  }
}
