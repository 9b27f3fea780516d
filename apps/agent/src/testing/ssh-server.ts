// An SSH server here that stands for a guest's, and a line to it. What it says to a command, each test decides, or a shell.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { newId } from '@dormouse/contract'
import { createLog } from '@dormouse/process'
import ssh2, { type Connection, type Server, type ServerChannel, type ServerConfig } from 'ssh2'
import { noPulse } from '../driver/guest-activity.ts'
import type { GuestTransport } from '../driver/guest-transport.ts'
import { SshLine } from '../ssh/connection.ts'
import { newPair, SshKeys } from '../ssh/keys.ts'

export interface LineToServer {
  line: SshLine
  /** The guest's server, to change what it answers to whoever dials from now on. */
  server: Server
  /** The guest's public key. */
  hostKey: string
  close(): void
}

export interface ServerWish {
  /** Lets the next command begin. */
  free?: () => Promise<unknown> | undefined
  /** What is said on a command's channel, by its number, before the command begins. */
  early?: (client: Connection, channel: number) => void
  config?: Partial<ServerConfig>
  /** The key that the host knows the guest by. */
  known?: (own: string) => string
  agent?: Partial<GuestTransport>
}

/** The one who listens is the guest, and says to a command what `answer` says, once `free` lets it begin. */
export async function lineToServer(...wish: Parameters<typeof lineTowardsServer>): Promise<LineToServer> {
  const made = await lineTowardsServer(...wish)
  await made.line.connect()
  return made
}

/** The same before it is connected. */
export async function lineTowardsServer(
  answer: (channel: ServerChannel, command: string) => void,
  { free, early, config, known = (own) => own, agent }: ServerWish = {},
): Promise<LineToServer> {
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
  const line = new SshLine({
    desktopId: newId(),
    door: async () => ({ host: '127.0.0.1', port, localAddress: '127.0.0.1' }),
    agent: { ping: async () => undefined, ...agent } as GuestTransport,
    keys,
    pulse: { ...noPulse, busy: async () => true },
    log: createLog({ name: 'line', level: 'silent' }),
  })
  const close = () => {
    line.close()
    server.close()
  }
  return { line, server, hostKey, close }
}

/** Says any message as a server does, whatever the rules: a first byte, and what follows it. */
export function sayRaw(client: Connection, message: Buffer): void {
  const { _protocol } = client as unknown as { _protocol: Inside }
  const { write } = _protocol._packetRW
  const packet = write.alloc(message.length)
  packet.set(message, write.allocStart)
  _protocol._cipher.encrypt(write.finalize(packet))
}

/** The connection that a server's channel is on, and the number that its other end knows it by. */
export function endOf(channel: ServerChannel): { client: Connection; number: number } {
  const { _client: client, outgoing } = channel as unknown as { _client: Connection; outgoing: { id: number } }
  return { client, number: outgoing.id }
}

/** A message of SSH: bytes as they are, numbers as words of 32 bits, texts with their length. */
export function message(type: number, ...parts: (Buffer | number | string)[]): Buffer {
  return Buffer.concat([Buffer.from([type]), ...parts.map(encoded)])
}

function encoded(part: Buffer | number | string): Buffer {
  if (Buffer.isBuffer(part)) return part
  if (typeof part === 'string') return Buffer.concat([encoded(Buffer.byteLength(part)), Buffer.from(part)])
  const word = Buffer.alloc(4)
  word.writeUInt32BE(part)
  return word
}

interface Inside {
  _packetRW: { write: { allocStart: number; alloc(bytes: number): Buffer; finalize(packet: Buffer): Buffer } }
  _cipher: { encrypt(packet: Buffer): void }
}

const numberOf = (session: object) => (session as { _chanInfo: { outgoing: { id: number } } })._chanInfo.outgoing.id

export interface LineToShells extends Pick<LineToServer, 'line' | 'close'> {
  /** What each command runs in, in the order in which they began. */
  shells: { command: string; process: ChildProcess }[]
}

interface ShellsWish {
  /** Lets the next command begin. */
  free?: () => Promise<unknown>
  /** What each shell runs first. */
  greeting?: string
  shell?: string
}

/** The guest runs its commands in shells of this machine, which end with it. */
export async function lineToShells({ free, greeting = '', shell: program = '/bin/sh' }: ShellsWish = {}) {
  const shells: LineToShells['shells'] = []
  const { line, close } = await lineToServer(
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
  return { line, shells, close: end } satisfies LineToShells
}
