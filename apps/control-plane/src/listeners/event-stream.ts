// One client's server-sent events: first what it has missed, then what happens, no faster than it reads. The table is read again
// from where it stopped, so a slow client costs one small buffer. Knows no HTTP.
import { Readable } from 'node:stream'
import type { Position } from '../events/cursors.ts'
import { cursorOf } from '../events/cursors.ts'
import { CursorGone } from '../events/feed.ts'
import type { EventRow } from '../events/store.ts'

/** Why the service ends a stream. A client that can goes on with its last cursor. */
export type EndReason = 'stopping' | 'revoked' | 'expired' | 'cursor_gone' | 'restarted' | 'failed'

export interface EventPage {
  events: EventRow[]
  position: Position
}

export interface EventStreamOptions {
  /** What was read before the stream begins. */
  first: EventPage
  /** Reads the next page; a page may be empty before the end. */
  read(after: Position): Promise<EventPage>
  /** The end of the log, as far as this replica has read it. */
  end(): Position
  /** A block of the stream. */
  blockOf(event: EventRow): string
  closed(stream: EventStream, reason: EndReason | 'slow' | 'client'): void
}

const bufferedBytes = 64 * 1024

export class EventStream extends Readable {
  readonly #options: EventStreamOptions
  #position: Position
  /** `full`: the client has to read before more is looked up. */
  #state: 'full' | 'reading' | 'live' | 'ended' = 'full'
  /** What was read and is not sent yet: at most one page. */
  #unread: EventPage | undefined
  #reason: EndReason | undefined

  constructor(options: EventStreamOptions, start: Position) {
    super({ highWaterMark: bufferedBytes })
    this.#options = options
    this.#position = start
    this.#unread = options.first
    this.push(`retry: 1000\nid: ${cursorOf(start)}\n\n`)
  }

  /** Whether the client has read everything, and waits for what happens. */
  get isLive(): boolean {
    return this.#state === 'live'
  }

  /** Sends an event that has just settled, if the client has read everything before it. */
  offer(event: EventRow, block: string): void {
    if (this.#state !== 'live' || event.seq <= this.#position.seq) return
    this.#position = { lineage: this.#position.lineage, seq: event.seq }
    if (!this.push(block)) this.#state = 'full'
  }

  /** Shows that the connection is alive, and moves the client's cursor on: its events may be rare. */
  beat(): void {
    if (this.#state !== 'live') return
    const end = this.#options.end()
    // A replica that has just started may not have come as far as this client.
    if (end.seq > this.#position.seq) this.#position = end
    if (!this.push(`: \nid: ${cursorOf(this.#position)}\n\n`)) this.#state = 'full'
  }

  /** Ends the stream, with the reason. */
  end(reason: EndReason, more: object = {}): void {
    if (this.#state === 'ended') return
    this.#state = 'ended'
    this.#reason = reason
    this.push(`event: end\ndata: ${JSON.stringify({ reason, ...more })}\n\n`)
    this.push(null)
  }

  override _read(): void {
    if (this.#state !== 'full') return
    this.#state = 'reading'
    this.#catchUp().catch((error: Error) => {
      if (error instanceof CursorGone) this.end('cursor_gone', { oldest_cursor: cursorOf(error.oldest) })
      else this.end('failed')
    })
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    const isSlow = this.#state === 'full' && this.readableLength >= bufferedBytes
    this.#state = 'ended'
    this.#options.closed(this, this.#reason ?? (isSlow ? 'slow' : 'client'))
    callback(error)
  }

  async #catchUp(): Promise<void> {
    const { read, end, blockOf } = this.#options
    while (this.#isReading()) {
      const { events, position } = this.#unread ?? (await read(this.#position))
      this.#unread = undefined
      if (!this.#isReading()) return
      for (const [at, event] of events.entries()) {
        this.#position = { ...position, seq: event.seq }
        if (!this.push(blockOf(event))) {
          this.#unread = { events: events.slice(at + 1), position }
          this.#state = 'full'
          return
        }
      }
      this.#position = position
      // In the same turn, so that no event settles in between.
      if (position.seq >= end().seq) this.#state = 'live'
    }
  }

  #isReading(): boolean {
    return this.#state === 'reading'
  }
}
