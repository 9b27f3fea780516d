// An SSH server here that stands for a guest's, and a line to it. What it says to a command, each test decides, or a shell.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { newId } from '@dormouse/contract'
import { createLog } from '@dormouse/process'
import ssh2, { type ServerChannel } from 'ssh2'
import { noPulse } from '../guest/pulse.ts'
import { newPair, SshKeys } from '../guest/ssh-keys.ts'
import { SshLine } from '../guest/ssh-line.ts'
import type { GuestTransport } from '../guest/transport.ts'

export interface LineToServer {
  line: SshLine
  close(): void
}

/** The one who listens is the guest, and says to a command what `answer` says, once `free` lets it begin. */
export async function lineToServer(
  answer: (channel: ServerChannel, command: string) => void,
  free: () => Promise<unknown> | undefined = () => undefined,
): Promise<LineToServer> {
  const [host, ours] = [newPair(), newPair()]
  const server = new ssh2.Server({ hostKeys: [host.private] }, (client) => {
    client.on('error', () => undefined).on('authentication', (context) => context.accept())
    client.on('session', (accept) =>
      accept().on('exec', async (begin, _refuse, { command }) => {
        await free()
        answer(begin(), command)
      }),
    )
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const keys = new SshKeys('/nowhere')
  keys.read = async () => ({ privateKey: ours.private, hostKey: host.public.split(' ')[1]! })
  const line = new SshLine({
    desktopId: newId(),
    door: async () => ({ host: '127.0.0.1', port, localAddress: '127.0.0.1' }),
    agent: { ping: async () => undefined } as GuestTransport,
    keys,
    pulse: { ...noPulse, busy: async () => true },
    log: createLog({ name: 'line', level: 'silent' }),
  })
  await line.connect()
  const close = () => {
    line.close()
    server.close()
  }
  return { line, close }
}

export interface LineToShells extends LineToServer {
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
  const { line, close } = await lineToServer((channel, command) => {
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
  }, free)
  const end = () => {
    close()
    for (const { process } of shells) process.kill('SIGKILL')
  }
  return { line, shells, close: end } satisfies LineToShells
}
