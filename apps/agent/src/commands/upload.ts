// A file that arrives in the guest of an awake desktop in several parts, over any number of connections.
import { addAbortSignal } from 'node:stream'
import type { AppendUploadCommand } from '@dormouse/contract'
import { awakeGuest, whileAwake } from '../desktops/awake-guest.ts'
import type { UploadAppend } from '../driver/guest-transport.ts'
import { type Appends, fileStep } from '../guest/transfers.ts'
import { unlessAborted } from '../mechanics/deadlines.ts'
import type { CommandHandler, DialBack } from './handler.ts'
import { type TransferDeps, transferError } from './transfer.ts'

interface UploadDeps extends TransferDeps {
  appends: Appends
}

/** How long the guest may take to write what came before an interruption. */
const keepSecs = 5

export const uploadStep: CommandHandler<'guest.uploadStep', UploadDeps> = async (deps, command) => {
  const guest = awakeGuest(deps, command)
  using awake = whileAwake(deps, command)
  await deps.appends.end(command.uploadId)
  return await unlessAborted(guest.uploadStep(command), awake.signal)
}

export const appendUpload: CommandHandler<'guest.appendUpload', UploadDeps> = async (
  deps,
  request,
  given,
  dialBack,
) => {
  const guest = awakeGuest(deps, request)
  using awake = whileAwake(deps, request, given)
  const { desktopId, uploadId, offset, stepTimeoutSecs, queueTimeoutSecs } = request
  try {
    return await deps.appends.run(uploadId, awake.signal, (signal) =>
      deps.transfers.run(desktopId, queueTimeoutSecs, signal, async () => {
        const opening = guest.appendUpload(request, offset)
        const append = await fileStep(opening, stepTimeoutSecs, signal, async (late) => late.close())
        return receive(append, request, signal, dialBack)
      }),
    )
  } catch (error) {
    throw transferError(error)
  }
}

async function receive(append: UploadAppend, request: AppendUploadCommand, signal: AbortSignal, dialBack: DialBack) {
  const { stepTimeoutSecs } = request
  let size = 0
  let isWriting = false
  try {
    const channel = addAbortSignal(signal, await dialBack(request.channel, signal))
    try {
      for await (const bytes of channel) {
        isWriting = true
        await fileStep(append.write(bytes), stepTimeoutSecs, signal)
        isWriting = false
        size += bytes.length
      }
    } finally {
      channel.destroy()
    }
  } catch (error) {
    // What has come is kept. A writer that is stuck is closed.
    if (isWriting) append.close()
    else await fileStep(append.finish(), keepSecs).catch(() => append.close())
    throw error
  }
  await fileStep(append.finish(), stepTimeoutSecs, signal, async () => append.close())
  return { size }
}
