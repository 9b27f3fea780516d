// Streams of bytes out of and into the guest of an awake desktop: files, parts of uploads, and folders as archives. The bytes go over a
// channel that the agent dials back, as fast as they are taken.
import { addAbortSignal } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import {
  type CommandPayload,
  type GuestStreamBody,
  type GuestStreamName,
  guestStreams,
  type RangeHead,
  Refusal,
  rangeHeadMaxBytes,
  refuse,
  resolveRange,
} from '@dormouse/contract'
import type { Channel } from '@dormouse/link'
import { type AwakeDeps, awakeGuest, whileAwake } from '../desktops/awake-guest.ts'
import {
  type FileDownload,
  type FileUpload,
  type GuestTransport,
  type UploadAppend,
  wholeFile,
} from '../driver/guest-transport.ts'
import { type Appends, checkedArchive, fileStep, type Transfers } from '../guest/transfers.ts'
import type { CommandHandler } from './handler.ts'
import { transferError } from './transfer-error.ts'

interface GuestStreamDeps extends AwakeDeps {
  transfers: Transfers
  appends: Appends
}

interface Transfer {
  guest: GuestTransport
  stepTimeoutSecs: number
  signal: AbortSignal
  /** Opens the channel, once the file or folder is open. */
  dial(): Promise<Channel>
  /** Runs the transfer when it is its turn. */
  inTurn(signal: AbortSignal, move: () => Promise<number>): Promise<number>
}

type Stream<N extends GuestStreamName> = (
  transfer: Transfer,
  body: GuestStreamBody<N>,
  deps: GuestStreamDeps,
) => Promise<number>

const streams: { [N in GuestStreamName]: Stream<N> } = {
  'file.read': (transfer, { path, range, if_version: ifVersion }) =>
    download(transfer, (guest) =>
      guest.openFile(path, (file) => {
        const isOther = ifVersion !== null && ifVersion !== file.version
        return range === null || isOther ? wholeFile(file) : (resolveRange(range, file.size) ?? null)
      }),
    ),
  'archive.read': (transfer, { path }) => download(transfer, (guest) => guest.openArchive(path)),
  'file.write': (transfer, { path, mode, owner }) => upload(transfer, (guest) => guest.createFile(path, mode, owner)),
  'archive.write': (transfer, { path, owner }) =>
    upload(transfer, async (guest) => checkedArchive(await guest.createArchive(path, owner))),
  'upload.append': (transfer, { id, path, offset }, { appends }) =>
    appends.run(id, transfer.signal, (signal) => append({ ...transfer, signal }, { uploadId: id, path }, offset)),
}

export const guestStream: CommandHandler<'guest.stream', GuestStreamDeps> = async (deps, request, given, dialBack) => {
  const { desktopId, stream, stepTimeoutSecs, queueTimeoutSecs } = request
  const body = bodyOf(request)
  const guest = awakeGuest(deps, request)
  using awake = whileAwake(deps, request, given)
  const { signal } = awake
  const transfer: Transfer = {
    ...{ guest, stepTimeoutSecs, signal },
    dial: () => dialBack(request.channel, signal),
    inTurn: (until, move) => deps.transfers.run(desktopId, queueTimeoutSecs, until, move),
  }
  try {
    return { size: await (streams[stream] as Stream<GuestStreamName>)(transfer, body, deps) }
  } catch (error) {
    throw transferError(error)
  }
}

function bodyOf({ stream, body }: CommandPayload<'guest.stream'>): GuestStreamBody<GuestStreamName> {
  const parsed = guestStreams[stream].body.safeParse(body)
  return parsed.success ? parsed.data : refuse('invalid_request', `${stream}: ${parsed.error.message}`)
}

type Download = FileDownload & { head?: RangeHead }

function download(transfer: Transfer, open: (guest: GuestTransport) => Promise<Download>): Promise<number> {
  const { guest, stepTimeoutSecs, signal, inTurn } = transfer
  return inTurn(signal, async () => {
    const file = await fileStep(open(guest), stepTimeoutSecs, signal, (late) => late.close())
    try {
      return await send(file, transfer)
    } finally {
      // A guest that is unreachable closes the file by itself.
      file.close().catch(() => undefined)
    }
  })
}

async function send(file: Download, { stepTimeoutSecs, signal, dial }: Transfer): Promise<number> {
  const channel = await dial()
  // A channel ends only when its other direction is read, too.
  channel.resume()
  let size = 0
  await pipeline(
    async function* () {
      if (file.head) yield headBytes(file.head)
      for (;;) {
        const bytes = await fileStep(file.read(), stepTimeoutSecs, signal)
        if (!bytes) return
        size += bytes.length
        yield bytes
      }
    },
    channel,
    { signal },
  )
  return size
}

function headBytes(head: RangeHead): Buffer {
  const json = Buffer.from(JSON.stringify(head))
  if (json.length > rangeHeadMaxBytes) throw new RangeError('the head of a range is too long')
  const length = Buffer.alloc(2)
  length.writeUInt16BE(json.length)
  return Buffer.concat([length, json])
}

/** How long removing an unfinished file may take. A guest that is unreachable removes it by itself. */
const abandonSecs = 1

function upload(transfer: Transfer, create: (guest: GuestTransport) => Promise<FileUpload>): Promise<number> {
  const { guest, stepTimeoutSecs, signal, inTurn } = transfer
  return inTurn(signal, async () => {
    const file = await fileStep(create(guest), stepTimeoutSecs, signal, (late) => late.abandon())
    try {
      await receive(transfer, (bytes) => fileStep(file.write(bytes), stepTimeoutSecs, signal))
      return await fileStep(file.commit(), stepTimeoutSecs, signal)
    } catch (error) {
      const reason = transferError(error)
      const abandoned = fileStep(file.abandon(), abandonSecs).catch(() => undefined)
      if (!(reason instanceof Refusal) || reason.code !== 'guest_unavailable') await abandoned
      throw reason
    }
  })
}

/** How long the guest may take to write what came before an interruption. */
const keepSecs = 5

function append(transfer: Transfer, target: { uploadId: string; path: string }, offset: number): Promise<number> {
  const { guest, stepTimeoutSecs, signal, inTurn } = transfer
  return inTurn(signal, async () => {
    const opening = guest.appendUpload(target, offset)
    const file = await fileStep(opening, stepTimeoutSecs, signal, async (late) => late.close())
    return added(transfer, file)
  })
}

/** What has come is kept. A writer that is stuck is closed. */
async function added(transfer: Transfer, file: UploadAppend): Promise<number> {
  const { stepTimeoutSecs, signal } = transfer
  let [size, isWriting] = [0, false]
  try {
    await receive(transfer, async (bytes) => {
      isWriting = true
      await fileStep(file.write(bytes), stepTimeoutSecs, signal)
      isWriting = false
      size += bytes.length
    })
  } catch (error) {
    if (isWriting) file.close()
    else await fileStep(file.finish(), keepSecs).catch(() => file.close())
    throw error
  }
  await fileStep(file.finish(), stepTimeoutSecs, signal, async () => file.close())
  return size
}

async function receive({ dial, signal }: Transfer, write: (bytes: Buffer) => Promise<void>): Promise<void> {
  const channel = addAbortSignal(signal, await dial())
  try {
    for await (const bytes of channel) await write(bytes)
  } finally {
    channel.destroy()
  }
}
