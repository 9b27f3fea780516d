// An SSH server here that stands for a guest's, and a line to it. What it says to a command, each test decides.
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

/** The one who listens is the guest, and says to a command what `answer` says. */
export async function lineToServer(answer: (channel: ServerChannel, command: string) => void): Promise<LineToServer> {
  const [host, ours] = [newPair(), newPair()]
  const server = new ssh2.Server({ hostKeys: [host.private] }, (client) => {
    client.on('error', () => undefined).on('authentication', (context) => context.accept())
    client.on('session', (accept) => accept().on('exec', (begin, _refuse, { command }) => answer(begin(), command)))
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
