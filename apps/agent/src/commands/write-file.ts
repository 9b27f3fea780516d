// Writes a file in the guest of an awake desktop. Its bytes come over a channel of their own.
import { addAbortSignal } from 'node:stream'
import { type CommandPayload, Refusal } from '@dormouse/contract'
import { awakeGuest, whileAwake } from '../desktops/awake-guest.ts'
import type { FileUpload } from '../driver/guest-transport.ts'
import { fileStep } from '../guest/file-step.ts'
import type { CommandHandler, DialBack } from './handler.ts'
import { type TransferDeps, transferError } from './transfer.ts'

/** How long removing an unfinished file may take. A guest that is unreachable removes it by itself. */
const abandonSecs = 1

type WriteRequest = CommandPayload<'guest.writeFile'>

export const writeFile: CommandHandler<'guest.writeFile', TransferDeps> = async (deps, request, given, dialBack) => {
  const { path, mode, owner, stepTimeoutSecs } = request
  const guest = awakeGuest(deps, request)
  using awake = whileAwake(deps, request, given)
  const { signal } = awake
  const transfer = async () => {
    const upload = await fileStep(guest.createFile(path, mode, owner), stepTimeoutSecs, signal, (late) =>
      late.abandon(),
    )
    try {
      return await receive(upload, request, signal, dialBack)
    } catch (error) {
      const reason = transferError(error)
      const abandoned = fileStep(upload.abandon(), abandonSecs).catch(() => undefined)
      if (!(reason instanceof Refusal) || reason.code !== 'guest_unavailable') await abandoned
      throw reason
    }
  }
  try {
    return await deps.transfers.run(request.desktopId, request.queueTimeoutSecs, signal, transfer)
  } catch (error) {
    throw transferError(error)
  }
}

async function receive(upload: FileUpload, request: WriteRequest, signal: AbortSignal, dialBack: DialBack) {
  const { stepTimeoutSecs } = request
  const channel = addAbortSignal(signal, await dialBack(request.channel, signal))
  try {
    for await (const bytes of channel) await fileStep(upload.write(bytes), stepTimeoutSecs, signal)
    return { size: await fileStep(upload.commit(), stepTimeoutSecs, signal) }
  } finally {
    channel.destroy()
  }
}
