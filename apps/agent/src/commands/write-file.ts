// Writes a file, or a folder from its archive, in the guest of an awake desktop. The bytes come over a channel of their own.
import { addAbortSignal } from 'node:stream'
import { type CommandPayload, Refusal, type TransferCommand } from '@dormouse/contract'
import { awakeGuest, whileAwake } from '../desktops/awake-guest.ts'
import type { FileUpload, GuestTransport } from '../driver/guest-transport.ts'
import { checkedArchive, fileStep } from '../guest/transfers.ts'
import type { CommandHandler, DialBack } from './handler.ts'
import { type TransferDeps, transferError } from './transfer.ts'

/** How long removing an unfinished file may take. A guest that is unreachable removes it by itself. */
const abandonSecs = 1

type WriteRequest = Pick<CommandPayload<'guest.writeFile'>, keyof TransferCommand>

export const writeFile: CommandHandler<'guest.writeFile', TransferDeps> = (deps, request, given, dialBack) =>
  transfer(deps, request, given, dialBack, (guest) => guest.createFile(request.path, request.mode, request.owner))

export const writeArchive: CommandHandler<'guest.writeArchive', TransferDeps> = (deps, request, given, dialBack) =>
  transfer(deps, request, given, dialBack, async (guest) =>
    checkedArchive(await guest.createArchive(request.path, request.owner)),
  )

async function transfer(
  deps: TransferDeps,
  request: WriteRequest,
  given: AbortSignal,
  dialBack: DialBack,
  create: (guest: GuestTransport) => Promise<FileUpload>,
) {
  const { stepTimeoutSecs } = request
  const guest = awakeGuest(deps, request)
  using awake = whileAwake(deps, request, given)
  const { signal } = awake
  const write = async () => {
    const upload = await fileStep(create(guest), stepTimeoutSecs, signal, (late) => late.abandon())
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
    return await deps.transfers.run(request.desktopId, request.queueTimeoutSecs, signal, write)
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
