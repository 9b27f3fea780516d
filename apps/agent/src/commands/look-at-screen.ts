// What the screen of an awake desktop shows, as soon as it is as the caller waits for it, with its picture.
import { pipeline } from 'node:stream/promises'
import { requireAwake } from '../desktops/awake-guest.ts'
import type { Journal } from '../desktops/journal.ts'
import type { Inputs } from '../input/inputs.ts'
import type { PictureEncoder } from '../input/picture-encoder.ts'
import { pictureOf } from '../input/pictures.ts'
import { unlessAborted } from '../mechanics/deadlines.ts'
import type { CommandHandler } from './handler.ts'
import { transferError } from './transfer-error.ts'

interface LookDeps {
  journal: Journal
  inputs: Inputs
  pictures: PictureEncoder
}

export const lookAtScreen: CommandHandler<'screen.look', LookDeps> = async (deps, request, signal, dialBack) => {
  requireAwake(deps.journal, request)
  const { desktopId, picture, share, ...look } = request
  const looking = deps.inputs.look(desktopId, look, signal, async (session, see) => {
    if (!picture) return
    const bytes = await deps.pictures.make({ share, signal }, () => {
      // What is reported is what the picture shows.
      see()
      return pictureOf(session.frame, picture.spec)
    })
    const channel = await dialBack(picture.channel, signal)
    channel.resume()
    await pipeline([bytes], channel).catch((error: unknown) => {
      throw transferError(error)
    })
  })
  // A paused screen sends nothing.
  return await unlessAborted(looking, signal)
}
