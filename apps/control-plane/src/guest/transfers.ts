// Starts a transfer of bytes with the guest of an awake desktop: the command, and the channel that the host dials back.
import {
  type CommandResult,
  fileQueueTimeoutSecs,
  fileStepTimeoutSecs,
  type GuestStreamBody,
  type GuestStreamName,
  refuse,
} from '@dormouse/contract'
import { CallRefused, type Channel, ChannelLost } from '@dormouse/link'
import type { Channels } from '../agents/channels.ts'
import type { Links } from '../agents/links.ts'
import type { Customer } from '../principals/service.ts'
import type { AwakeDesktops } from './awake.ts'
import { type Awaken, awakening } from './awaken.ts'

const limits = { stepTimeoutSecs: fileStepTimeoutSecs, queueTimeoutSecs: fileQueueTimeoutSecs }
const marginMs = 10_000
/** Within this time the host has opened the file, or has refused. */
const transferBeginsMs = (fileQueueTimeoutSecs + fileStepTimeoutSecs) * 1_000 + marginMs

export interface TransferParams {
  id: string
  /** Absolute, in the guest. */
  path: string
  /** Aborted when the client disconnects. */
  signal: AbortSignal
  requestId: string
  awaken?: Awaken | undefined
}

export class Transfers {
  readonly #awake: AwakeDesktops
  readonly #links: Links
  readonly #channels: Channels

  constructor(awake: AwakeDesktops, links: Links, channels: Channels) {
    this.#awake = awake
    this.#links = links
    this.#channels = channels
  }

  /** Starts it, and waits for its channel, or for the host's refusal. Before that, nothing has been transferred. */
  begin<N extends GuestStreamName>(
    caller: Customer,
    transfer: TransferParams,
    stream: N,
    more: Omit<GuestStreamBody<N>, 'path'>,
  ): Promise<{ channel: Channel; done: Promise<CommandResult<'guest.stream'>> }> {
    return awakening(transfer.awaken, () => this.#begin(caller, transfer, stream, more))
  }

  async #begin<N extends GuestStreamName>(
    caller: Customer,
    { id, path, signal, requestId }: TransferParams,
    stream: N,
    more: Omit<GuestStreamBody<N>, 'path'>,
  ): Promise<{ channel: Channel; done: Promise<CommandResult<'guest.stream'>> }> {
    const { hostId, generation } = await this.#awake.require(caller, id)
    const awaited = this.#channels.expect(hostId, transferBeginsMs)
    const body = { path, ...more }
    const payload = { desktopId: id, generation, stream, body, channel: awaited.token, ...limits }
    // No total timeout: both ends abort a transfer that makes no progress.
    const asked = this.#links.command(hostId, 'guest.stream', payload, { signal, timeoutMs: Infinity, requestId })
    const done = asked.catch((error: unknown) => {
      if (signal.aborted) return refuse('invalid_request', 'the client disconnected')
      return this.#awake.whyNot(id, error, { path })
    })
    try {
      const channel = await Promise.race([awaited.channel, done.then(() => awaited.channel)])
      return { channel, done }
    } catch (error) {
      awaited.cancel()
      throw error
    }
  }
}

/** If the channel was lost, the host's response has the reason. */
export async function throwCause(error: unknown, done: Promise<unknown>): Promise<never> {
  if (!(error instanceof ChannelLost || error instanceof CallRefused)) throw error
  await done
  return refuse('host_unreachable', 'the transfer was interrupted; retry')
}
