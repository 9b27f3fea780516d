// Sends the screen of an awake desktop as one picture.
import { pipeline } from 'node:stream/promises'
import { requireAwake } from '../desktops/awake-guest.ts'
import type { Journal } from '../desktops/journal.ts'
import type { Driver } from '../driver/driver.ts'
import type { PictureEncoder } from '../input/picture-encoder.ts'
import { wholePicture } from '../input/pictures.ts'
import type { CommandHandler } from './handler.ts'
import { transferError } from './transfer.ts'

interface PictureDeps {
  journal: Journal
  driver: Pick<Driver, 'picture'>
  pictures: PictureEncoder
}

export const takePicture: CommandHandler<'stream.picture', PictureDeps> = async (deps, request, signal, dialBack) => {
  requireAwake(deps.journal, request)
  const { desktopId, share = desktopId } = request
  const read = async () => wholePicture(await deps.driver.picture(desktopId))
  const picture = await deps.pictures.makeRead({ share, signal }, read)
  const channel = await dialBack(request.channel, signal)
  channel.resume()
  await pipeline([picture], channel).catch((error: unknown) => {
    throw transferError(error)
  })
  return {}
}
