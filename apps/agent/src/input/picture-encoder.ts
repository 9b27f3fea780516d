// Makes pictures of screens on one thread of their own: one at a time for the whole host, each for a bounded time, in turns that are
// fair between customers. The pixels are taken when a picture's turn comes. The thread ends when it is not used.
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { type PictureFormat, Refusal, refuse, type Size } from '@dormouse/contract'
import { Semaphore } from '@dormouse/process'
import type { ScreenPixels } from './framebuffer.ts'
import { pictureWorker } from './picture-worker-start.ts'

export interface PictureRequest extends ScreenPixels {
  /** The picture's size. */
  size: Size
  format: PictureFormat
  quality: number
}

/** Whose picture it is, and when its caller no longer waits. */
export interface PictureCaller {
  /** Those with the same one share their turns. */
  share: string
  signal: AbortSignal
}

/** How long a picture waits for its turn, since its caller does not wait longer, and how long it may take. */
const patience = { waitMs: 8_000, encodeMs: 8_000 }
/** More pictures of one share than these wait. */
const mostWaiting = 64
const keptMs = 30_000

export class PictureEncoder {
  readonly #turns = new Semaphore(1)
  readonly #patience: typeof patience
  #worker: Worker | undefined
  #ending: NodeJS.Timeout | undefined

  constructor(given = patience) {
    this.#patience = given
  }

  /** The picture of what `take` returns when its turn has come. The pixels must not be used after that. */
  async make({ share, signal }: PictureCaller, take: () => PictureRequest): Promise<Buffer> {
    if (this.#turns.waiting(share) >= mostWaiting) refuse('pictures_busy', 'too many pictures of one customer wait')
    const error = () => new Refusal('pictures_busy', 'a picture waited too long for its turn')
    const limit = { ms: this.#patience.waitMs, error }
    return await this.#turns.run(() => this.#encode(take(), signal), { share, signal, limit })
  }

  /** Ends the thread. */
  close(): void {
    clearTimeout(this.#ending)
    void this.#worker?.terminate()
    this.#worker = undefined
  }

  /** A picture whose caller has gone is not finished: that ends the thread, and the next one starts another. */
  async #encode(request: PictureRequest, signal: AbortSignal): Promise<Buffer> {
    clearTimeout(this.#ending)
    const worker = this.#started()
    const either = AbortSignal.any([signal, AbortSignal.timeout(this.#patience.encodeMs)])
    try {
      // Rejects if the worker fails.
      const answered = once(worker, 'message', { signal: either })
      worker.postMessage(request, [request.pixels])
      const [bytes] = (await answered) as [ArrayBuffer]
      this.#ending = setTimeout(() => this.close(), keptMs).unref()
      return Buffer.from(bytes)
    } catch {
      this.close()
      signal.throwIfAborted()
      return refuse('pictures_busy', 'the picture was not made in time')
    }
  }

  #started(): Worker {
    if (this.#worker) return this.#worker
    const worker = new Worker(pictureWorker.start, {
      eval: pictureWorker.eval,
      resourceLimits: { maxOldGenerationSizeMb: 64 },
    })
    worker.unref()
    worker.on('error', () => this.close())
    worker.on('exit', () => {
      if (this.#worker === worker) this.#worker = undefined
    })
    this.#worker = worker
    return worker
  }
}
