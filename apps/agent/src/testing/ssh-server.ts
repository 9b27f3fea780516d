// An SSH server on this machine in place of a guest's, and a connection to it. Each test decides what it answers to a
// command, or a shell does.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { newId, Refusal } from '@dormouse/contract'
import { createLog } from '@dormouse/process'
import ssh2, { type Connection, type Server, type ServerChannel, type ServerConfig } from 'ssh2'
import { unknownActivity } from '../driver/guest-activity.ts'
import type { GuestAgent } from '../driver/guest-transport.ts'
import { openSocket } from '../mechanics/open-socket.ts'
import { SshConnection } from '../ssh/connection.ts'
import { newPair, SshKeys } from '../ssh/keys.ts'

export interface ConnectedServer {
  connection: SshConnection
  /** The guest's server; a test may change how it answers later connections. */
  server: Server
  /** The guest's public key. */
  hostKey: string
  close(): void
}

export interface ServerOptions {
  /** The next command starts when this resolves. */
  free?: () => Promise<unknown> | undefined
  /** Called with the number of a command's channel before the command starts. */
  early?: (client: Connection, channel: number) => void
  config?: Partial<ServerConfig>
  /** The guest's host key as the host knows it. */
  known?: (own: string) => string
  agent?: Partial<GuestAgent>
}

/** A connection to a server that answers each command with `answer`, once `free` lets it start. */
export async function connectToServer(...options: Parameters<typeof startServer>): Promise<ConnectedServer> {
  const made = await startServer(...options)
  await made.connection.connect()
  return made
}

/** The same before it is connected. */
export async function startServer(
  answer: (channel: ServerChannel, command: string) => void,
  { free, early, config, known = (own) => own, agent }: ServerOptions = {},
): Promise<ConnectedServer> {
  const [host, ours] = [newPair(), newPair()]
  const server = new ssh2.Server({ hostKeys: [host.private], ...config }, (client) => {
    client.on('error', () => undefined).on('authentication', (context) => context.accept())
    client.on('session', (accept) => {
      const session = accept()
      session.on('exec', async (begin, _refuse, { command }) => {
        early?.(client, numberOf(session))
        await free?.()
        answer(begin(), command)
      })
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const keys = new SshKeys('/nowhere')
  const hostKey = host.public.split(' ')[1]!
  keys.read = async () => ({ privateKey: ours.private, hostKey: known(hostKey) })
  const connection = new SshConnection({
    desktopId: newId(),
    open: async () => openSocket({ host: '127.0.0.1', port }, 2_000, () => new Refusal('guest_unavailable')),
    agent: { ping: async () => undefined, ...agent } as GuestAgent,
    keys,
    activity: { ...unknownActivity, busy: async () => true },
    log: createLog({ name: 'connection', level: 'silent' }),
  })
  const close = () => {
    connection.close()
    server.close()
  }
  return { connection, server, hostKey, close }
}

/** Sends any message as a server does, also one that violates the protocol: a first byte, and what follows it. */
export function sayRaw(client: Connection, message: Buffer): void {
  const { _protocol } = client as unknown as { _protocol: Internals }
  const { write } = _protocol._packetRW
  const packet = write.alloc(message.length)
  packet.set(message, write.allocStart)
  _protocol._cipher.encrypt(write.finalize(packet))
}

/** The connection that a server's channel is on, and the channel's number at the other end. */
export function endOf(channel: ServerChannel): { client: Connection; number: number } {
  const { _client: client, outgoing } = channel as unknown as { _client: Connection; outgoing: { id: number } }
  return { client, number: outgoing.id }
}

/** An SSH message: bytes as they are, numbers as 32 bits, strings with their length. */
export function message(type: number, ...parts: (Buffer | number | string)[]): Buffer {
  return Buffer.concat([Buffer.from([type]), ...parts.map(encoded)])
}

function encoded(part: Buffer | number | string): Buffer {
  if (Buffer.isBuffer(part)) return part
  if (typeof part === 'string') return Buffer.concat([encoded(Buffer.byteLength(part)), Buffer.from(part)])
  const number = Buffer.alloc(4)
  number.writeUInt32BE(part)
  return number
}

interface Internals {
  _packetRW: { write: { allocStart: number; alloc(bytes: number): Buffer; finalize(packet: Buffer): Buffer } }
  _cipher: { encrypt(packet: Buffer): void }
}

const numberOf = (session: object) => (session as { _chanInfo: { outgoing: { id: number } } })._chanInfo.outgoing.id

export interface ConnectedShells extends Pick<ConnectedServer, 'connection' | 'close'> {
  /** The process of each command, in the order of their start. */
  shells: { command: string; process: ChildProcess }[]
}

interface ShellsOptions {
  /** The next command starts when this resolves. */
  free?: () => Promise<unknown>
  /** A command that each shell runs first. */
  greeting?: string
  shell?: string
}

/** The guest runs its commands in shells of this machine; `close` kills them. */
export async function connectToShells({ free, greeting = '', shell: program = '/bin/sh' }: ShellsOptions = {}) {
  const shells: ConnectedShells['shells'] = []
  const { connection, close } = await connectToServer(
    (channel, command) => {
      const shell = spawn(program, ['-c', greeting + command], { detached: true })
      shells.push({ command, process: shell })
      channel.pipe(shell.stdin).on('error', () => undefined)
      shell.stdout.pipe(channel, { end: false })
      shell.stderr.pipe(channel.stderr, { end: false })
      shell.on('close', (code, signal) => {
        if (signal) channel.exit(signal)
        else channel.exit(code ?? 1)
        channel.end()
      })
    },
    { free },
  )
  const end = () => {
    close()
    for (const { process } of shells) process.kill('SIGKILL')
  }
  return { connection, shells, close: end } satisfies ConnectedShells
}
