// The clipboard that a screen shares with one of its clients. A text is offered, and sent when the guest requests it: this is
// the only sign that the guest has taken it. Knows no connection.
import { EventEmitter, once } from 'node:events'
import * as rfb from './rfb-messages.ts'

interface Events {
  /** A text was requested, was sent, or was replaced; or the connection has ended. */
  change: []
}

export class RfbClipboard extends EventEmitter<Events> {
  readonly #send: (message: Buffer) => void
  readonly #maxBytes: number
  #text: string | undefined
  /** The guest, or another client, has a text that was not fetched yet. */
  #isElsewhere = false
  #wasAskedFor = false
  #offers = 0
  #isShared = false
  #isEnded = false
  /** How long the guest took to answer the last time; undefined if it never has. */
  guestTookMs: number | undefined

  constructor(send: (message: Buffer) => void, maxBytes: number) {
    super()
    this.setMaxListeners(0)
    this.#send = send
    this.#maxBytes = maxBytes
  }

  /** Whether the screen shares a clipboard. The guest may still have no program for it. */
  get isShared(): boolean {
    return this.#isShared
  }

  /** The guest's programs paste this text from now on, as soon as the guest has got the offer. */
  offer(text: string): void {
    this.#text = text
    this.#isElsewhere = false
    this.#wasAskedFor = false
    this.#offers++
    this.#send(rfb.clipboardNotice())
    this.emit('change')
  }

  /** How many texts were offered. */
  get offers(): number {
    return this.#offers
  }

  /** Offers the text again. A guest that has just connected drops offers without a sign. */
  repeat(): void {
    if (this.isOffered && !this.#isEnded) this.#send(rfb.clipboardNotice())
  }

  /** Whether the text that was offered last was neither requested nor replaced. */
  get isOffered(): boolean {
    return this.#text !== undefined && !this.#wasAskedFor && !this.#isElsewhere
  }

  /** Waits until the text that was offered last is requested; false if that does not happen in time. */
  async asked(maxMs: number, signal?: AbortSignal): Promise<boolean> {
    const offer = this.#offers
    await this.#until(() => !this.isOffered || this.#offers !== offer, maxMs, signal)
    return this.#wasAskedFor && this.#offers === offer
  }

  /** The text that was copied last, here or in the guest; undefined if none was seen, or if it does not come in time. */
  async read(maxMs: number, signal?: AbortSignal): Promise<string | undefined> {
    if (!this.#isElsewhere) return this.#text
    const startedAt = performance.now()
    this.#send(rfb.clipboardRequest())
    await this.#until(() => !this.#isElsewhere, maxMs, signal)
    this.guestTookMs = performance.now() - startedAt
    return this.#text
  }

  /** The screen has sent a message of the extended clipboard. */
  heard(body: Buffer): void {
    const flags = body.readUInt32BE(0)
    if (flags & rfb.clipboardFlags.caps) this.#isShared = true
    else if (flags & rfb.clipboardFlags.notify) {
      this.#text = undefined
      this.#wasAskedFor = false
      this.#isElsewhere = (flags & rfb.clipboardFlags.text) !== 0
    } else if (flags & rfb.clipboardFlags.request) this.#provide()
    else if (flags & rfb.clipboardFlags.provide) {
      this.#text = rfb.textProvided(body.subarray(4), this.#maxBytes)
      this.#isElsewhere = false
    }
    this.emit('change')
  }

  end(): void {
    this.#isEnded = true
    this.emit('change')
  }

  #provide(): void {
    if (this.#text === undefined) return
    this.#wasAskedFor = true
    this.#send(rfb.clipboardText(this.#text))
  }

  async #until(isDone: () => boolean, maxMs: number, signal?: AbortSignal): Promise<void> {
    const timeout = AbortSignal.timeout(Math.ceil(maxMs))
    const either = signal ? AbortSignal.any([signal, timeout]) : timeout
    while (!isDone() && !this.#isEnded && !either.aborted) {
      await once(this, 'change', { signal: either }).catch(() => undefined)
    }
  }
}
