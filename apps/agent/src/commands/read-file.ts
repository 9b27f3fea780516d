// Reads a file in the guest of an awake desktop. Its bytes go over a channel of their own, as fast as they are taken.
import { pipeline } from 'node:stream/promises'
import type { CommandPayload } from '@dormouse/contract'
import { awakeGuest, whileAwake } from '../desktops/awake-guest.ts'
import type { FileDownload } from '../driver/guest-transport.ts'
import { fileStep } from '../guest/file-step.ts'
import type { CommandHandler, DialBack } from './handler.ts'
import { type TransferDeps, transferError } from './transfer.ts'

type ReadRequest = CommandPayload<'guest.readFile'>

export const readFile: CommandHandler<'guest.readFile', TransferDeps> = async (deps, request, given, dialBack) => {
  const guest = awakeGuest(deps, request)
  using awake = whileAwake(deps, request, given)
  const { signal } = awake
  const transfer = async () => {
    const file = await fileStep(guest.openFile(request.path), request.stepTimeoutSecs, signal, (late) => late.close())
    try {
      return await send(file, request, signal, dialBack)
    } finally {
      // A guest that is unreachable closes the file by itself.
      file.close().catch(() => undefined)
    }
  }
  try {
    return await deps.transfers.run(request.desktopId, request.queueTimeoutSecs, signal, transfer)
  } catch (error) {
    throw transferError(error)
  }
}

async function send(file: FileDownload, request: ReadRequest, signal: AbortSignal, dialBack: DialBack) {
  const channel = await dialBack(request.channel, signal)
  // A channel ends only when its other direction is read, too.
  channel.resume()
  let size = 0
  await pipeline(
    async function* () {
      for await (const bytes of contentOf(file, request.stepTimeoutSecs, signal)) {
        size += bytes.length
        yield bytes
      }
    },
    channel,
    { signal },
  )
  return { size }
}

async function* contentOf(file: FileDownload, stepTimeoutSecs: number, signal: AbortSignal): AsyncGenerator<Buffer> {
  for (;;) {
    const bytes = await fileStep(file.read(), stepTimeoutSecs, signal)
    if (!bytes) return
    yield bytes
  }
}
