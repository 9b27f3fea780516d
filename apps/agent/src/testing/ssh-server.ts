// An SSH server on this machine in place of a guest's, and a connection to it. Each test decides what it answers to a
// command, or a shell does.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type ExecCommand, newId, Refusal } from '@dormouse/contract'
import { createLog } from '@dormouse/process'
import ssh2, { type Connection, type Server, type ServerChannel, type ServerConfig } from 'ssh2'
import { unknownActivity } from '../driver/guest-access.ts'
import type { GuestAgent } from '../driver/guest-transport.ts'
import { openSocket } from '../mechanics/open-socket.ts'
import { programIn, supervisorPlaces } from '../scripts/supervisor.ts'
import { supervisorProgram } from '../scripts/supervisor-program.ts'
import { GuestCalls } from '../ssh/calls.ts'
import { SshConnection } from '../ssh/connection.ts'
import { runCommand } from '../ssh/exec.ts'
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
  const folder = mkdtempSync(join(tmpdir(), 'dormouse-keys-'))
  const keys = new SshKeys(folder)
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
    rmSync(folder, { recursive: true, force: true })
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

interface ShellsOptions {
  /** A command that each shell runs first. */
  greeting?: string
  shell?: string
}

/** A guest's commands run in shells of this machine, with our program in a folder of its own; `close` kills them. */
export class LocalShells {
  /** The process of each command, in the order of their start. */
  readonly started: { command: string; process: ChildProcess }[] = []
  readonly #place = mkdtempSync(join(tmpdir(), 'dormouse-guest-'))
  readonly #program: string
  readonly #greeting: string

  constructor({ greeting = '', shell = '/bin/sh' }: ShellsOptions = {}) {
    this.#program = shell
    this.#greeting = greeting
    writeFileSync(programIn(this.#place), supervisorProgram, { mode: 0o755 })
  }

  answer(channel: ServerChannel, command: string): void {
    const inPlace = command
      .replaceAll('/run/dormouse', `${this.#place}/run`)
      .replaceAll(supervisorPlaces[0], this.#place)
    const shell = spawn(this.#program, ['-c', this.#greeting + inPlace], { detached: true })
    this.started.push({ command, process: shell })
    channel.pipe(shell.stdin).on('error', () => undefined)
    shell.stdout.pipe(channel, { end: false })
    shell.stderr.pipe(channel.stderr, { end: false })
    shell.on('close', (code, signal) => {
      if (signal) channel.exit(signal)
      else channel.exit(code ?? 1)
      channel.end()
    })
  }

  close(): void {
    for (const { process } of this.started) process.kill('SIGKILL')
    rmSync(this.#place, { recursive: true, force: true })
  }
}

export interface ConnectedShells extends Pick<ConnectedServer, 'connection' | 'close'> {
  shells: LocalShells['started']
}

/** `free`: the next command starts when this resolves. */
export async function connectToShells({ free, ...how }: ShellsOptions & { free?: () => Promise<unknown> } = {}) {
  const local = new LocalShells(how)
  const { connection, close } = await connectToServer(local.answer.bind(local), { free })
  const end = () => {
    close()
    local.close()
  }
  return { connection, shells: local.started, close: end } satisfies ConnectedShells
}

const callsOf = new WeakMap<SshConnection, GuestCalls>()

/** The calls of a connection's guest. */
export function callsOver(connection: SshConnection): GuestCalls {
  const calls = callsOf.get(connection) ?? new GuestCalls(connection)
  callsOf.set(connection, calls)
  return calls
}

/** Runs a command to its end in the guest of a connection. */
export const runOver = (connection: SshConnection, command: ExecCommand) => runCommand(callsOver(connection), command)
