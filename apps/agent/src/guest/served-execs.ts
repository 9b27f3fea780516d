// Asks a supervisor that waits in the guest, if the transport has streams: an operation then starts no program there. It is
// started when operations follow each other, and ends when none does. Who gets no answer here runs the operation as a command.
import { type DesktopId, Refusal, refuse } from '@dormouse/contract'
import type { Conversation, GuestTransport } from '../driver/guest-transport.ts'
import { ServedAnswers, servedInputMaxBytes, servedRequest, serveScript } from '../scripts/served.ts'

interface Target {
  desktopId: DesktopId
  generation: number
}

interface Request {
  args: readonly (string | number)[]
  input?: string | undefined
  timeoutSecs: number
}

/** Without a request for so long it ends. */
const idleMs = 30_000
/** Of one that could not be started. */
const retryMs = 10_000
/** Answered by any supervisor that serves: there is no such exec. */
const probe = { args: ['get', '-'], timeoutSecs: 20 }

export class ServedExecs {
  readonly #servers = new Map<DesktopId, Server>()

  /** The answer of the supervisor that waits; undefined if none does, or it is lost: the request may have been served. */
  async ask({ desktopId, generation }: Target, request: Request): Promise<string | undefined> {
    const server = this.#servers.get(desktopId)
    if (server?.generation !== generation || !server.isReady) return undefined
    if ((request.input?.length ?? 0) > servedInputMaxBytes) return undefined
    return server.ask(request)
  }

  /** Starts one for the requests to come, unless there is one. */
  begin(guest: GuestTransport, { desktopId, generation }: Target, place: string): void {
    const there = this.#servers.get(desktopId)
    if (there?.generation === generation) return
    there?.close()
    const server = new Server(generation, () => {
      if (this.#servers.get(desktopId) === server) this.#servers.delete(desktopId)
    })
    this.#servers.set(desktopId, server)
    void server.start(guest, place)
  }
}

/** One that waits in a guest. */
class Server {
  readonly generation: number
  readonly #answers = new ServedAnswers()
  readonly #waiting = new Map<number, (answer: string | undefined) => void>()
  readonly #forget: () => void
  #conversation: Conversation | undefined
  #idle: NodeJS.Timeout | undefined
  #lastTag = 0
  #isReady = false
  #isEnded = false

  constructor(generation: number, forget: () => void) {
    this.generation = generation
    this.#forget = forget
  }

  get isReady(): boolean {
    return this.#isReady && !this.#isEnded
  }

  /** Rejects only for a fault of this program: whatever a guest does leaves the requests to commands. */
  async start(guest: GuestTransport, place: string): Promise<void> {
    try {
      const listener = { received: (bytes: Buffer) => this.#receive(bytes), ended: () => this.#end() }
      this.#conversation = await guest.converse(serveScript(place), listener)
      if (this.#isEnded) this.#conversation?.close()
      else if (this.#conversation && (await this.ask(probe)) !== undefined) this.#isReady = true
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
    }
    if (this.isReady) this.#rest()
    else this.#giveUp()
  }

  /** Undefined if it is lost before it answers; `guest_deadline` if it does not answer in time. */
  async ask({ args, input, timeoutSecs }: Request): Promise<string | undefined> {
    const tag = ++this.#lastTag
    const { promise, resolve } = Promise.withResolvers<string | undefined>()
    let isLate = false
    const timer = setTimeout(() => {
      isLate = true
      this.close()
    }, timeoutSecs * 1_000)
    clearTimeout(this.#idle)
    this.#waiting.set(tag, resolve)
    this.#answers.expect(tag)
    this.#conversation?.send(servedRequest(tag, args, input))
    const answer = await promise
    clearTimeout(timer)
    if (isLate) refuse('guest_deadline', `the guest did not answer within ${timeoutSecs} s`)
    return answer
  }

  close(): void {
    this.#conversation?.close()
    this.#end()
  }

  #receive(bytes: Buffer): void {
    try {
      for (const { tag, text } of this.#answers.add(bytes)) {
        this.#waiting.get(tag)?.(text)
        this.#waiting.delete(tag)
      }
      this.#rest()
    } catch {
      // What is no answer is asked again as a command, which says what is wrong.
      this.close()
    }
  }

  #rest(): void {
    clearTimeout(this.#idle)
    if (this.#waiting.size === 0 && !this.#isEnded) this.#idle = setTimeout(() => this.close(), idleMs).unref()
  }

  #end(): void {
    if (this.#isEnded) return
    this.#isEnded = true
    clearTimeout(this.#idle)
    for (const answer of this.#waiting.values()) answer(undefined)
    this.#waiting.clear()
    if (this.#isReady) this.#forget()
  }

  /** It stays known for a while, so that not each request tries again. */
  #giveUp(): void {
    this.close()
    setTimeout(this.#forget, retryMs).unref()
  }
}
