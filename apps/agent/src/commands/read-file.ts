// Reads a file, part of one, or the archive of a folder in the guest of an awake desktop. The bytes go over a channel of their
// own, as fast as they are taken.
import { pipeline } from 'node:stream/promises'
import { type RangeHead, rangeHeadMaxBytes, resolveRange, type TransferCommand } from '@dormouse/contract'
import { awakeGuest, whileAwake } from '../desktops/awake-guest.ts'
import { type FileDownload, type GuestTransport, wholeFile } from '../driver/guest-transport.ts'
import { fileStep } from '../guest/transfers.ts'
import type { CommandHandler, DialBack } from './handler.ts'
import { type TransferDeps, transferError } from './transfer.ts'

export const readFile: CommandHandler<'guest.readFile', TransferDeps> = (deps, request, given, dialBack) => {
  const { path, range, ifVersion } = request
  return transfer(deps, request, given, dialBack, (guest) =>
    guest.openFile(path, (file) => {
      const isOther = ifVersion !== null && ifVersion !== file.version
      return range === null || isOther ? wholeFile(file) : (resolveRange(range, file.size) ?? null)
    }),
  )
}

export const readArchive: CommandHandler<'guest.readArchive', TransferDeps> = (deps, request, given, dialBack) =>
  transfer(deps, request, given, dialBack, (guest) => guest.openArchive(request.path))

type Download = FileDownload & { head?: RangeHead }

async function transfer(
  deps: TransferDeps,
  request: TransferCommand,
  given: AbortSignal,
  dialBack: DialBack,
  open: (guest: GuestTransport) => Promise<Download>,
) {
  const guest = awakeGuest(deps, request)
  using awake = whileAwake(deps, request, given)
  const { signal } = awake
  const move = async () => {
    const file = await fileStep(open(guest), request.stepTimeoutSecs, signal, (late) => late.close())
    try {
      return await send(file, request, signal, dialBack)
    } finally {
      // A guest that is unreachable closes the file by itself.
      file.close().catch(() => undefined)
    }
  }
  try {
    return await deps.transfers.run(request.desktopId, request.queueTimeoutSecs, signal, move)
  } catch (error) {
    throw transferError(error)
  }
}

async function send(file: Download, request: TransferCommand, signal: AbortSignal, dialBack: DialBack) {
  const channel = await dialBack(request.channel, signal)
  // A channel ends only when its other direction is read, too.
  channel.resume()
  let size = 0
  await pipeline(
    async function* () {
      if (file.head) yield headBytes(file.head)
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

function headBytes(head: RangeHead): Buffer {
  const json = Buffer.from(JSON.stringify(head))
  if (json.length > rangeHeadMaxBytes) throw new RangeError('the head of a range is too long')
  const length = Buffer.alloc(2)
  length.writeUInt16BE(json.length)
  return Buffer.concat([length, json])
}

async function* contentOf(file: FileDownload, stepTimeoutSecs: number, signal: AbortSignal): AsyncGenerator<Buffer> {
  for (;;) {
    const bytes = await fileStep(file.read(), stepTimeoutSecs, signal)
    if (!bytes) return
    yield bytes
  }
}
