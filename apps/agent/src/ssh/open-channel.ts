// Opens a channel on a guest's SSH connection.
import { Refusal } from '@dormouse/contract'
import type { Client } from 'ssh2'
import type { GuestChannel } from '../driver/guest-connection.ts'
import { sshLimits } from '../scripts/limits.ts'
import { closeChannel } from './channels.ts'
import { asRefusal } from './login.ts'

/**
 * Starts a script in the guest's login shell and hands its channel to `wrap` in the tick in which it opens, so that not
 * even its end is missed. A channel that opens after the timeout goes to `late`.
 */
export async function openChannel<T>(
  client: Client,
  script: string,
  wrap: (channel: GuestChannel) => T,
  late: (channel: GuestChannel) => void = closeChannel,
): Promise<T> {
  const opened = Promise.withResolvers<T>()
  let isLate = false
  const timer = setTimeout(() => {
    isLate = true
    const secs = sshLimits.openChannelMs / 1_000
    opened.reject(new Refusal('guest_unavailable', `the guest is busy and did not start the command within ${secs} s`))
  }, sshLimits.openChannelMs)
  const onClose = () => opened.reject(new Refusal('guest_unavailable', 'the SSH connection to the guest was lost'))
  client.once('close', onClose)
  try {
    client.exec(script, (error, channel) => {
      if (error) return opened.reject(asRefusal(error))
      if (isLate) late(channel)
      else opened.resolve(wrap(channel))
    })
    return await opened.promise
  } catch (error) {
    // ssh2 throws here if the connection was lost in this tick.
    throw error instanceof Refusal ? error : asRefusal(error as Error)
  } finally {
    clearTimeout(timer)
    client.off('close', onClose)
  }
}
