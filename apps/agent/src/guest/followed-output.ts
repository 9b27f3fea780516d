// The output of execs, sent by their guests ahead of its readers: a reader that asks again and again gets what has come meanwhile, and
// its guest never waits for it. Only what readers have asked for lately is sent, and of each stream so much.
import type { GuestCallBody, GuestCallResult } from '@dormouse/contract'
import type { Following, GuestTransport } from '../driver/guest-transport.ts'
import { before } from '../mechanics/deadlines.ts'
import { type ExecReport, execs, isFailure, parseRead } from '../scripts/supervisor.ts'

type Body = Pick<GuestCallBody<'exec.read'>, 'id' | 'stream' | 'offset' | 'max_bytes' | 'wait_ms'>
export type Read = Omit<GuestCallResult<'exec.read'>, 'exec'> & { exec: ExecReport }

/** What a guest may send beyond what was read. */
const windowBytes = 1024 * 1024
/** It is told that it may go on after so much, and so often: it notices readers that have left. */
const moreBytes = windowBytes / 4
const moreMs = 15_000
/** Of all desktops. Other reads are single calls. */
const mostAtOnce = 64
/** Without a read, it ends. */
const idleMsByDefault = 5_000
/** A reader of another part takes its place after this time. */
const lentMs = 2_000
/** The guest ends it after so long; then it begins again. */
const lifeSecs = 600
const moreSecs = 30
/** Of output that flows, few large pieces cost less than many small ones. */
const flowsBytes = 4096
const gatherBytes = 256 * 1024
const gatherMs = 20

export class FollowedOutputs {
  readonly #open = new Map<string, FollowedOutput>()
  readonly #idleMs: number

  constructor({ idleMs = idleMsByDefault } = {}) {
    this.#idleMs = idleMs
  }

  /** Undefined if that needs a call of its own: nothing has come in time, nothing more comes, or too many are open. */
  async read(guest: GuestTransport, desktopId: string, body: Body): Promise<Read | undefined> {
    const key = `${desktopId} ${body.id} ${body.stream}`
    const known = this.#open.get(key)
    if (known?.has(body.offset)) return known.read(body)
    if (known?.isLent || (!known && this.#open.size >= mostAtOnce)) return undefined
    known?.end()
    const output = new FollowedOutput(body, this.#idleMs, () => {
      if (this.#open.get(key) === output) this.#open.delete(key)
    })
    this.#open.set(key, output)
    output.begin(guest)
    return output.read(body)
  }
}

class FollowedOutput {
  readonly #of: Pick<Body, 'id' | 'stream'>
  readonly #onEnd: () => void
  readonly #idle: NodeJS.Timeout
  #following: Following | undefined
  #exec: ExecReport | undefined
  /** The offset of the first byte that is kept. */
  #from: number
  /** A guest may send single bytes, so that they are kept together. */
  #kept = Buffer.alloc(0)
  #size = 0
  #isOver = false
  #readers = 0
  #readAt = 0
  #toldAt = performance.now()
  #toldOffset: number
  #changed = Promise.withResolvers<void>()

  constructor({ id, stream, offset }: Body, idleMs: number, onEnd: () => void) {
    this.#of = { id, stream }
    this.#from = offset
    this.#toldOffset = offset
    this.#onEnd = onEnd
    this.#idle = setTimeout(() => (this.#readers > 0 ? this.#idle.refresh() : this.end()), idleMs).unref()
  }

  /** Whether what begins there is kept, or comes next. */
  has(offset: number): boolean {
    return !this.#isFinished && offset >= this.#from && offset <= this.#from + windowBytes
  }

  /** Whether it has a reader, who is elsewhere. */
  get isLent(): boolean {
    return !this.#isFinished && (this.#readers > 0 || performance.now() - this.#readAt < lentMs)
  }

  get #isFinished(): boolean {
    return this.#isOver && this.#size === 0
  }

  /** In the background: what fails is shown by a call of its own. */
  begin(guest: GuestTransport): void {
    const words = [execs, 'follow', this.#of.id, this.#streamWord, this.#from, this.#from + windowBytes]
    const follow = async () => {
      const following = await guest.follow({ words, timeoutSecs: lifeSecs }, (part) => this.#add(part))
      this.#following = following
      if (this.#isOver) this.#tell(0)
      await following.ended
      this.#following = undefined
    }
    follow().then(
      () => this.#finish(),
      () => this.#finish(),
    )
  }

  async read({ offset, max_bytes: maxBytes, wait_ms: waitMs }: Body): Promise<Read | undefined> {
    this.#readers++
    try {
      this.#drop(offset)
      await this.#until(waitMs, () => this.#size > 0)
      if (this.#size >= flowsBytes) await this.#until(gatherMs, () => this.#size >= gatherBytes)
      // Another reader may be ahead of this one.
      if (this.#size === 0 || offset !== this.#from || !this.#exec) return undefined
      const data = this.#kept.toString('base64', 0, Math.min(maxBytes, this.#size))
      return { exec: this.#exec, offset: this.#from, data }
    } finally {
      this.#readers--
      this.#readAt = performance.now()
      this.#idle.refresh()
      if (this.#isFinished) this.end()
    }
  }

  end(): void {
    this.#finish()
    this.#tell(0)
    clearTimeout(this.#idle)
    this.#size = 0
    this.#kept = Buffer.alloc(0)
    this.#onEnd()
  }

  get #streamWord(): string {
    return this.#of.stream === 'stderr' ? 'err' : 'out'
  }

  /** What cannot be used ends it: a call of its own then shows why the guest did not, or what it has dropped. */
  #add(part: Buffer): void {
    const { exec, from, bytes } = isFailure(part) ? { exec: undefined, from: 0, bytes: part } : parseRead(part)
    const next = this.#from + this.#size
    const more = bytes.subarray(next - from)
    const isNext = exec?.id === this.#of.id && from <= next && this.#size + more.length <= windowBytes
    if (!isNext || this.#isOver) this.#isOver = true
    else {
      this.#exec = exec
      this.#append(more)
    }
    this.#wake()
  }

  #append(bytes: Buffer): void {
    const size = this.#size + bytes.length
    if (size > this.#kept.length) {
      const larger = Buffer.allocUnsafe(Math.min(windowBytes, Math.max(size, 2 * this.#kept.length)))
      this.#kept.copy(larger, 0, 0, this.#size)
      this.#kept = larger
    }
    bytes.copy(this.#kept, this.#size)
    this.#size = size
  }

  /** The reader has what is before the offset. */
  #drop(offset: number): void {
    const dropped = Math.min(this.#size, offset - this.#from)
    this.#kept.copyWithin(0, dropped, this.#size)
    this.#size -= dropped
    this.#from = offset
    const isDue = offset - this.#toldOffset >= moreBytes || performance.now() - this.#toldAt >= moreMs
    if (isDue && !this.#isOver) this.#tell(offset + windowBytes)
  }

  /** It may go on up to there; zero ends it. */
  #tell(upTo: number): void {
    this.#toldAt = performance.now()
    this.#toldOffset = this.#from
    const { tag, ask } = this.#following ?? {}
    const words = [execs, 'more', this.#of.id, this.#streamWord, this.#from, tag ?? 0, upTo]
    ask?.({ words, timeoutSecs: moreSecs }).catch(() => undefined)
  }

  async #until(ms: number, isThere: () => boolean): Promise<void> {
    const deadline = performance.now() + ms
    while (!isThere() && !this.#isOver && performance.now() < deadline) await before(deadline, this.#changed.promise)
  }

  #finish(): void {
    this.#isOver = true
    this.#wake()
  }

  #wake(): void {
    this.#changed.resolve()
    this.#changed = Promise.withResolvers()
  }
}
