// What is asked of the guest of an awake desktop. Any replica that holds a link to the host may ask.
import { addAbortSignal, Readable } from 'node:stream'
import {
  type CommandPayload,
  type CommandResult,
  type ExecBody,
  type ExecJson,
  execTimeoutDefaultSecs,
  execTimeoutMaxSecs,
  fileQueueTimeoutSecs,
  fileStepTimeoutSecs,
  type ReadFileCommand,
  Refusal,
  refuse,
} from '@dormouse/contract'
import { CallRefused, type Channel, ChannelLost } from '@dormouse/link'
import type { Channels } from '../agents/channels.ts'
import type { Links } from '../agents/links.ts'
import { requireAwake } from '../desktops/require-awake.ts'
import type { Desktops } from '../desktops/service.ts'
import type { BoundedBody } from '../http/bounded-body.ts'
import type { Customer } from '../principals/service.ts'

/** Beyond the guest's own deadline: the time the host may take to kill the command and answer. */
const marginMs = 10_000
const limits = { stepTimeoutSecs: fileStepTimeoutSecs, queueTimeoutSecs: fileQueueTimeoutSecs }
/** Until then the host has its turn and has opened the file, or has said why not. */
const transferBeginsMs = (fileQueueTimeoutSecs + fileStepTimeoutSecs) * 1_000 + marginMs

export class Guests {
  readonly #desktops: Desktops
  readonly #links: Links
  readonly #channels: Channels

  constructor(desktops: Desktops, links: Links, channels: Channels) {
    this.#desktops = desktops
    this.#links = links
    this.#channels = channels
  }

  /** Runs a command. Only its own deadline ends it (504), also when the caller goes away; the host's loss is 503. */
  async exec(caller: Customer, id: string, body: ExecBody, requestId: string): Promise<ExecJson> {
    const { hostId, generation } = requireAwake(await this.#desktops.get(caller, id))
    const timeoutSecs = Math.min(body.timeout_secs ?? execTimeoutDefaultSecs, execTimeoutMaxSecs)
    const result = await this.#links.command(
      hostId,
      'guest.exec',
      {
        desktopId: id,
        generation,
        command: body.command,
        cwd: body.cwd ?? null,
        env: body.env ?? {},
        stdin: body.stdin ?? null,
        timeoutSecs,
      },
      { timeoutMs: timeoutSecs * 1_000 + marginMs, requestId },
    )
    return {
      exit_code: result.exitCode,
      signal: result.signal,
      stdout: result.stdout,
      stderr: result.stderr,
      stdout_truncated: result.stdoutTruncated,
      stderr_truncated: result.stderrTruncated,
      duration_ms: result.durationMs,
    }
  }

  /** Puts the body into a file, whole or not at all; answers its size. */
  async writeFile(caller: Customer, wish: FileWish & { mode: number | null }, body: BoundedBody): Promise<number> {
    const { channel, done } = await this.#transfer(caller, wish, 'guest.writeFile', { mode: wish.mode }).catch(
      async (error: unknown) => {
        await body.discard()
        throw error
      },
    )
    const sent = body.into(channel).catch((error: unknown) => whyBroken(error, done))
    try {
      return (await Promise.race([sent.then(() => done), done])).size
    } finally {
      channel.destroy()
    }
  }

  /** The bytes of a file, once it is open. The stream breaks off where the transfer does. */
  async readFile(caller: Customer, wish: FileWish): Promise<Readable> {
    const { channel, done } = await this.#transfer(caller, wish, 'guest.readFile', {})
    channel.end()
    done.catch(() => channel.destroy(new ChannelLost(1000, 'the host refused')))
    return Readable.from(bytesOf(addAbortSignal(wish.signal, channel), done), { objectMode: false })
  }

  /** Asks for a transfer and waits for its channel, or for the reason why there is none. */
  async #transfer<N extends 'guest.writeFile' | 'guest.readFile'>(
    caller: Customer,
    { id, path, signal, requestId }: FileWish,
    name: N,
    more: Omit<CommandPayload<N>, keyof ReadFileCommand>,
  ): Promise<{ channel: Channel; done: Promise<CommandResult<N>> }> {
    const { hostId, generation } = requireAwake(await this.#desktops.get(caller, id))
    const awaited = this.#channels.expect(hostId, transferBeginsMs)
    const payload = { desktopId: id, generation, path, channel: awaited.token, ...limits, ...more } as CommandPayload<N>
    // Both ends watch over its pace: as a whole it takes as long as it takes.
    const asked = this.#links.command(hostId, name, payload, { signal, timeoutMs: Infinity, requestId })
    const done = asked.catch((error: unknown) => {
      throw signal.aborted ? new Refusal('invalid_request', 'the client disconnected') : error
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

interface FileWish {
  id: string
  /** Absolute, in the guest. */
  path: string
  /** Aborted when the caller goes away. */
  signal: AbortSignal
  requestId: string
}

async function* bytesOf(channel: Channel, done: Promise<unknown>): AsyncGenerator<Buffer> {
  try {
    yield* channel
  } catch (error) {
    await whyBroken(error, done)
  }
}

/** Where the channel was cut, the host's answer says why. */
async function whyBroken(error: unknown, done: Promise<unknown>): Promise<never> {
  if (!(error instanceof ChannelLost || error instanceof CallRefused)) throw error
  await done
  return refuse('host_unreachable', 'the transfer was interrupted; retry')
}
