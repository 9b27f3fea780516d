// A guest's SSH server without our code in between: the baseline that commands and files are measured against.
import { connect } from 'node:net'
import ssh2, { type Client, type SFTPWrapper } from 'ssh2'
import { shakeHands } from '../ssh/handshake.ts'
import type { GuestKeys } from '../ssh/keys.ts'

export interface RawSsh {
  /** Runs a command to its end. */
  exec(command: string): Promise<void>
  /** Files of this host, by ssh2's fastest method. */
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
  const sftp = await new Promise<SFTPWrapper>((resolve, reject) =>
    client.sftp((error, opened) => (error ? reject(error) : resolve(opened))),
  )
  const promised = (work: (done: (error?: Error | null) => void) => void) =>
    new Promise<void>((resolve, reject) => work((error) => (error ? reject(error) : resolve())))
  return {
    exec: (command) =>
      new Promise((resolve, reject) =>
        client.exec(command, (error, channel) => {
          if (error) return reject(error)
          channel.on('close', () => resolve()).resume()
        }),
      ),
    put: (from, to) => promised((done) => sftp.fastPut(from, to, done)),
    get: (from, to) => promised((done) => sftp.fastGet(from, to, done)),
    close: () => void client.destroy(),
  }
}
