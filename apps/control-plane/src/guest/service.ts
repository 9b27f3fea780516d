// Commands and files in the guest of an awake desktop. Any replica with a link to the host can serve them.
import { addAbortSignal, Readable } from 'node:stream'
import {
  type ByteRange,
  type CommandPayload,
  type ExecBody,
  type ExecJson,
  Refusal,
  type TransferCommand,
} from '@dormouse/contract'
import { type Channel, ChannelLost } from '@dormouse/link'
import type { Links } from '../agents/links.ts'
import type { BoundedBody } from '../http/bounded-body.ts'
import type { Customer } from '../principals/service.ts'
import type { AwakeDesktops } from './awake.ts'
import { shortTimeoutSecs, timedOut } from './exec-ends.ts'
import { type FilePart, filePart } from './file-part.ts'
import { type TransferParams, type Transfers, throwCause } from './transfers.ts'

/** Added to the guest's own deadline: time for the host to kill the command and respond. */
const marginMs = 10_000
export class Guests {
  readonly #awake: AwakeDesktops
  readonly #links: Links
  readonly #transfers: Transfers

  constructor(awake: AwakeDesktops, links: Links, transfers: Transfers) {
    this.#awake = awake
    this.#links = links
    this.#transfers = transfers
  }

  /** Runs a command. Only its own deadline ends it (504), not the client's disconnect. A lost host is 503. */
  async exec(caller: Customer, id: string, body: ExecBody, requestId: string): Promise<ExecJson> {
    const { hostId, generation } = await this.#awake.require(caller, id)
    const timeoutSecs = shortTimeoutSecs(body)
    const payload = {
      desktopId: id,
      generation,
      command: body.command,
      cwd: body.cwd ?? null,
      env: body.env ?? {},
      stdin: body.stdin ?? null,
      timeoutSecs,
      showsTimeout: true,
    }
    const options = { timeoutMs: timeoutSecs * 1_000 + marginMs, requestId }
    const asked = this.#links.command(hostId, 'guest.exec', payload, options)
    const result = await asked.catch((error: unknown) => this.#awake.whyNot(id, unlessDone(error)))
    const ended = {
      exit_code: result.exitCode,
      signal: result.signal,
      stdout: result.stdout,
      stderr: result.stderr,
      stdout_truncated: result.stdoutTruncated,
      stderr_truncated: result.stderrTruncated,
      duration_ms: result.durationMs,
    }
    return result.timedOut ? timedOut(ended, timeoutSecs) : ended
  }

  /** Writes the body to a file, atomically; returns its size. */
  async writeFile(
    caller: Customer,
    transfer: TransferParams & { mode: number | null; owner: string | null },
    body: Pick<BoundedBody, 'into' | 'discard'>,
  ): Promise<number> {
    const { mode, owner } = transfer
    return this.#send(this.#transfers.begin(caller, transfer, 'guest.writeFile', { mode, owner }), body)
  }

  /** Unpacks the body into a folder, once all of it has come; returns its size. */
  async writeArchive(
    caller: Customer,
    transfer: TransferParams & { owner: string | null },
    body: Pick<BoundedBody, 'into' | 'discard'>,
  ): Promise<number> {
    const { owner } = transfer
    return this.#send(this.#transfers.begin(caller, transfer, 'guest.writeArchive', { owner }), body)
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
    return filePart(await this.#receive(caller, transfer, 'guest.readFile', { range, ifVersion }))
  }

  /** A tar archive of a folder, once that is open. The stream fails if the transfer does. */
  async readArchive(caller: Customer, transfer: TransferParams): Promise<Readable> {
    return Readable.from(await this.#receive(caller, transfer, 'guest.readArchive', {}), { objectMode: false })
  }

  async #receive<N extends 'guest.readFile' | 'guest.readArchive'>(
    caller: Customer,
    transfer: TransferParams,
    name: N,
    more: Omit<CommandPayload<N>, keyof TransferCommand>,
  ): Promise<AsyncGenerator<Buffer>> {
    const { channel, done } = await this.#transfers.begin(caller, transfer, name, more)
    channel.end()
    done.catch(() => channel.destroy(new ChannelLost(1000, 'the host refused')))
    return bytesOf(addAbortSignal(transfer.signal, channel), done)
  }
}

export type { FilePart }

/** If the host was lost in between, it says so: without a key the exact request would run the command again. */
function unlessDone(error: unknown): unknown {
  if (!(error instanceof Refusal) || !error.extra.mayBeDone) return error
  const detail =
    'the desktop’s host became unreachable, and the command may have begun; look at what it has done before you run it again, or send commands with an Idempotency-Key'
  return new Refusal(error.code, detail, error.extra)
}

async function* bytesOf(channel: Channel, done: Promise<unknown>): AsyncGenerator<Buffer> {
  try {
    yield* channel
  } catch (error) {
    await throwCause(error, done)
  }
}
