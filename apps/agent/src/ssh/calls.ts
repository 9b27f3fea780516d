// The calls of a guest's program over its connection: one channel, on which the program serves all of them. It is opened with the
// connection, so that a call starts nothing in the guest but itself.
import { randomBytes } from 'node:crypto'
import { Refusal, refuse } from '@dormouse/contract'
import type { GuestChannel, GuestConnection } from '../driver/guest-connection.ts'
import { CommandLost, type Following, type GuestCall } from '../driver/guest-transport.ts'
import { before } from '../mechanics/deadlines.ts'
import { CallAnswers, callRequest, noProgramCode, serveScript } from '../scripts/calls.ts'
import { startedTooLate } from '../scripts/exec-result.ts'
import { greetingTooLong, StartLine, withStartLine } from '../scripts/start-line.ts'
import { closeChannel } from './channels.ts'

/** So many run in the guest at once. */
const callsAtOnce = 200
/** How long a guest may take beyond a call's own timeout. */
const lateMs = 5_000

export class GuestCalls {
  readonly #connection: GuestConnection
  #channel: CallChannel | undefined
  #opening: Promise<CallChannel> | undefined

  constructor(connection: GuestConnection) {
    this.#connection = connection
  }

  /** Channels on which nothing is in flight. */
  get idleChannels(): number {
    return this.#channel?.isIdle ? 1 : 0
  }

  /** Opens the channel in the background, so that a first call does not wait for it. */
  prepare(): void {
    this.#connection.inBackground(this.#open())
  }

  /** The answer. A call that may be repeated is made again if its connection is lost, or the program is missing. */
  async call(call: GuestCall, { repeats = true } = {}): Promise<Buffer> {
    const { notAfter = Number.POSITIVE_INFINITY } = call
    const opening = this.#open()
    const channel = await (notAfter < Number.POSITIVE_INFINITY ? before(notAfter, opening) : opening)
    if (!channel) throw startedTooLate()
    try {
      return await channel.ask(call)
    } catch (error) {
      if (!(error instanceof CommandLost) || !repeats) throw error
      const next = await this.#open().catch(() => Promise.reject(error))
      return await next.ask(call)
    }
  }

  /** Not repeated if its connection is lost: who follows begins where it was. */
  async follow(call: GuestCall, onPart: (part: Buffer) => void): Promise<Following> {
    const channel = await this.#open()
    return channel.follow(call, onPart)
  }

  async #open(): Promise<CallChannel> {
    await this.#connection.connect()
    if (this.#channel?.isOpen) return this.#channel
    this.#opening ??= this.#begin().finally(() => {
      this.#opening = undefined
    })
    return this.#opening
  }

  /** The program is brought in if the guest does not have it. */
  async #begin(): Promise<CallChannel> {
    let channel = await CallChannel.open(this.#connection)
    if (!(await channel.serves())) {
      await this.#connection.meet()
      await this.#connection.connect()
      channel = await CallChannel.open(this.#connection)
      if (!(await channel.serves()))
        refuse('exec_unsupported', 'the guest does not run the program that this host has brought in')
    }
    this.#channel = channel
    return channel
  }
}

/** No folder, no operation: the program refuses it. */
const greeting: GuestCall = { words: ['.', ''], timeoutSecs: 30 }

interface Waiting extends PromiseWithResolvers<Buffer | undefined> {
  /** Gets each part as it comes. */
  onPart?: ((part: Buffer) => void) | undefined
}

class CallChannel {
  readonly #channel: GuestChannel
  readonly #answers = new CallAnswers()
  readonly #waiting = new Map<number, Waiting>()
  readonly #start: StartLine
  #exitCode: number | null | undefined
  #lastTag = 0
  #isOpen = true
  #why: Refusal | undefined

  static open(connection: GuestConnection): Promise<CallChannel> {
    const start = new StartLine(randomBytes(12).toString('hex'))
    return connection.openChannel(withStartLine(serveScript, start.nonce), (channel) => new CallChannel(channel, start))
  }

  private constructor(channel: GuestChannel, start: StartLine) {
    this.#channel = channel
    this.#start = start
    channel.on('data', (bytes: Buffer) => this.#receive(bytes))
    channel.stderr.resume()
    channel.on('exit', (code: number | null) => {
      this.#exitCode = code
      closeChannel(channel)
    })
    channel.once('close', () => this.#end())
  }

  get isOpen(): boolean {
    return this.#isOpen
  }

  get isIdle(): boolean {
    return this.#isOpen && this.#waiting.size === 0
  }

  /** Whether the guest has the program. */
  async serves(): Promise<boolean> {
    try {
      await this.ask(greeting)
      return true
    } catch (error) {
      if (this.#exitCode === noProgramCode) return false
      if (this.#start.pid === undefined && this.#exitCode !== undefined)
        refuse('command_not_run', 'the guest’s login shell ended before running the command')
      throw error
    }
  }

  async follow(call: GuestCall, onPart: (part: Buffer) => void): Promise<Following> {
    const tag = this.#lastTag + 1
    const ended = this.ask(call, onPart)
    // It was not sent.
    if (this.#lastTag !== tag) await ended
    return { tag, ended, ask: (more) => this.ask(more) }
  }

  async ask(call: GuestCall, onPart?: (part: Buffer) => void): Promise<Buffer> {
    if (!this.#isOpen) throw this.#lost()
    if (call.notAfter !== undefined && performance.now() > call.notAfter) throw startedTooLate()
    if (this.#waiting.size >= callsAtOnce) refuse('guest_unavailable', 'the guest runs as many calls at once as it may')
    const { timeoutSecs } = call
    const tag = ++this.#lastTag
    const request = callRequest(tag, call)
    const waiting = { ...Promise.withResolvers<Buffer | undefined>(), onPart }
    this.#waiting.set(tag, waiting)
    this.#answers.expect(tag, { inParts: onPart !== undefined })
    // A guest that does not even end its own operations is left.
    const timer = setTimeout(() => this.#fail(guestDeadline(timeoutSecs)), timeoutSecs * 1_000 + lateMs)
    const begunAt = performance.now()
    try {
      this.#channel.write(request)
      const answer = await waiting.promise
      if (answer) return answer
      if (performance.now() - begunAt >= timeoutSecs * 1_000 - 100) throw guestDeadline(timeoutSecs)
      return refuse('guest_unavailable', 'the guest ended the call: it is out of memory or processes')
    } finally {
      clearTimeout(timer)
    }
  }

  #receive(bytes: Buffer): void {
    const own = this.#start.after(bytes)
    try {
      if (this.#start.isOverLimit) refuse('command_not_run', greetingTooLong)
      for (const { tag, answer, isPart } of this.#answers.add(own)) {
        const waiting = this.#waiting.get(tag)
        if (isPart) {
          waiting?.onPart?.(answer!)
          continue
        }
        waiting?.resolve(answer)
        this.#waiting.delete(tag)
      }
    } catch (error) {
      this.#fail(error as Refusal)
    }
  }

  #fail(why: Refusal): void {
    this.#why ??= why
    closeChannel(this.#channel)
    this.#end()
  }

  #end(): void {
    if (!this.#isOpen) return
    this.#isOpen = false
    for (const { reject } of this.#waiting.values()) reject(this.#lost())
    this.#waiting.clear()
  }

  #lost(): Refusal {
    return this.#why ?? new CommandLost('the connection to the guest was lost before it answered')
  }
}

const guestDeadline = (timeoutSecs: number) =>
  new Refusal('guest_deadline', `the guest did not answer within ${timeoutSecs} s`)
