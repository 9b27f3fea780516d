// Sends the screen of an awake desktop as one picture.
import { pipeline } from 'node:stream/promises'
import { requireAwake } from '../desktops/awake-guest.ts'
import type { CommandHandler } from './room.ts'
import { brokenOff } from './write-file.ts'

export const takePicture: CommandHandler<'stream.picture'> = async ({ ground }, wish, signal, dialBack) => {
  requireAwake(ground.journal, wish)
  const picture = await ground.driver.picture(wish.desktopId)
  const channel = await dialBack(wish.channel, signal)
  channel.resume()
  await pipeline([picture], channel).catch((error: unknown) => {
    throw brokenOff(error)
  })
  return {}
}
