// A conversation with a script of ours on a channel of a guest's SSH connection. Keeps nothing of what passes.
import { randomBytes } from 'node:crypto'
import type { ClientChannel } from 'ssh2'
import type { Conversation, ConversationListener } from '../driver/guest-transport.ts'
import { StartLine, withStartLine } from '../scripts/start-line.ts'
import { closeChannel } from './channels.ts'
import type { SshConnection } from './connection.ts'

export function converseOverSsh(
  connection: SshConnection,
  script: string,
  listener: ConversationListener,
): Promise<Conversation> {
  const start = new StartLine(randomBytes(12).toString('hex'))
  return connection.openChannel(withStartLine(script, start.nonce), (channel) => begin(channel, start, listener))
}

function begin(channel: ClientChannel, start: StartLine, { received, ended }: ConversationListener): Conversation {
  channel.on('data', (bytes: Buffer) => {
    const own = start.after(bytes)
    if (own.length > 0) received(own)
    else if (start.isOverLimit) closeChannel(channel)
  })
  channel.stderr.resume()
  // The script may have ended while what it has started still holds the channel: then it is closed here.
  channel.once('exit', () => closeChannel(channel))
  channel.once('close', ended)
  const send = (bytes: Buffer) => {
    if (channel.writable) channel.write(bytes)
  }
  return { send, close: () => closeChannel(channel) }
}
