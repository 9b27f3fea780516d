// Commands and files in the guest of an awake desktop. Any replica with a link to the host can serve them.
import { addAbortSignal, Readable } from 'node:stream'
import {
  type ByteRange,
  type ExecBody,
  type ExecJson,
  execTimeoutDefaultSecs,
  execTimeoutMaxSecs,
  type GuestStreamBody,
  Refusal,
  refuse,
} from '@dormouse/contract'
import { type Channel, ChannelLost } from '@dormouse/link'
import type { BoundedBody } from '../http/bounded-body.ts'
import type { Customer } from '../principals/service.ts'
import type { Asking, GuestCaller } from './calls.ts'
import { type FilePart, filePart } from './file-part.ts'
import { type TransferParams, type Transfers, throwCause } from './transfers.ts'

export class Guests {
  readonly #calls: GuestCaller
  readonly #transfers: Transfers

  constructor(calls: GuestCaller, transfers: Transfers) {
    this.#calls = calls
    this.#transfers = transfers
  }

  /** Runs a command. Only its own deadline ends it (504), not the client's disconnect. A lost host is 503. */
  async exec(asking: Asking, body: ExecBody): Promise<ExecJson> {
    const timeoutSecs = shortTimeoutSecs(body)
    const asked = this.#calls.ask(asking, 'exec', { ...body, timeout_secs: timeoutSecs }, { timeoutSecs })
    const { timed_out: isLate, ...ended } = await asked.catch(unlessDone)
    return isLate ? timedOut(ended, timeoutSecs) : ended
  }

  /** Writes the body to a file, atomically; returns its size. */
  async writeFile(
    caller: Customer,
    transfer: TransferParams & { mode: number | null; owner: string | null },
    body: Pick<BoundedBody, 'into' | 'discard'>,
  ): Promise<number> {
    const { mode, owner } = transfer
    return this.#send(this.#transfers.begin(caller, transfer, 'file.write', { mode, owner }), body)
  }

  /** Unpacks the body into a folder, once all of it has come; returns its size. */
  async writeArchive(
    caller: Customer,
    transfer: TransferParams & { owner: string | null },
    body: Pick<BoundedBody, 'into' | 'discard'>,
  ): Promise<number> {
    const { owner } = transfer
    return this.#send(this.#transfers.begin(caller, transfer, 'archive.write', { owner }), body)
  }

  async #send(
    begun: Promise<{ channel: Channel; done: Promise<{ size: number }> }>,
    body: Pick<BoundedBody, 'into' | 'discard'>,
  ): Promise<number> {
    const { channel, done } = await begun.catch(async (error: unknown) => {
      await body.discard()
      throw error
    })
    const sent = body.into(channel).catch((error: unknown) => throwCause(error, done))
    try {
      return (await Promise.race([sent.then(() => done), done])).size
    } finally {
      channel.destroy()
    }
  }

  /** A file or part of it, once it is open. The stream fails if the transfer does. */
  async readFile(
    caller: Customer,
    transfer: TransferParams,
    range: ByteRange | null,
    ifVersion: string | null,
  ): Promise<FilePart> {
    return filePart(await this.#receive(caller, transfer, 'file.read', { range, if_version: ifVersion }))
  }

  /** A tar archive of a folder, once that is open. The stream fails if the transfer does. */
  async readArchive(caller: Customer, transfer: TransferParams): Promise<Readable> {
    return Readable.from(await this.#receive(caller, transfer, 'archive.read', {}), { objectMode: false })
  }

  async #receive<N extends 'file.read' | 'archive.read'>(
    caller: Customer,
    transfer: TransferParams,
    name: N,
    more: Omit<GuestStreamBody<N>, 'path'>,
  ): Promise<AsyncGenerator<Buffer>> {
    const { channel, done } = await this.#transfers.begin(caller, transfer, name, more)
    channel.end()
    done.catch(() => channel.destroy(new ChannelLost(1000, 'the host refused')))
    return bytesOf(addAbortSignal(transfer.signal, channel), done)
  }
}

export type { FilePart }

/** If the host was lost in between, it says so: without a key the exact request would run the command again. */
function unlessDone(error: unknown): never {
  if (!(error instanceof Refusal) || !error.extra.mayBeDone) throw error
  const detail =
    'the desktop’s host became unreachable, and the command may have begun; look at what it has done before you run it again, or send commands with an Idempotency-Key'
  throw new Refusal(error.code, detail, error.extra)
}

async function* bytesOf(channel: Channel, done: Promise<unknown>): AsyncGenerator<Buffer> {
  try {
    yield* channel
  } catch (error) {
    await throwCause(error, done)
  }
}

/** How much of each stream a problem contains. */
const shownBytes = 64 * 1024

export const shortTimeoutSecs = ({ timeout_secs }: Pick<ExecBody, 'timeout_secs'>): number =>
  Math.min(timeout_secs ?? execTimeoutDefaultSecs, execTimeoutMaxSecs)

/** Throws the refusal of a command that was ended at its timeout, with the beginning of what it had printed. */
export function timedOut(printed: ExecJson, timeoutSecs: number): never {
  const [stdout, stderr] = [briefly(printed.stdout), briefly(printed.stderr)]
  return refuse('guest_deadline', `the command ran longer than ${timeoutSecs} s and was ended; allow it more time`, {
    stdout,
    stderr,
    stdout_truncated: printed.stdout_truncated || stdout.length < printed.stdout.length,
    stderr_truncated: printed.stderr_truncated || stderr.length < printed.stderr.length,
  })
}

/** The beginning, without a character that the cut would halve. */
function briefly(text: string): string {
  const bytes = Buffer.from(text)
  if (bytes.length <= shownBytes) return text
  let end = shownBytes
  while (((bytes[end] ?? 0) & 0xc0) === 0x80) end--
  return bytes.toString('utf8', 0, end)
}
