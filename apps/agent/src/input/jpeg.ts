// Encodes pictures as JPEG on one thread of their own: one at a time, for a bounded time. The thread ends when it is not used.
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { refuse } from '@dormouse/contract'
import { Slots } from '../mechanics/locks.ts'
import { jpegWorker } from './jpeg-worker-start.ts'

/** Four bytes a pixel: red, green, blue, and one that says nothing. */
export interface JpegRequest {
  width: number
  height: number
  rgba: ArrayBuffer
  quality: number
}

/** More pictures than these wait: their callers would not. */
const mostWaiting = 16
const waitMs = 4_000
const encodeMs = 8_000
const keptMs = 30_000

export class JpegEncoder {
  readonly #slot = new Slots(1)
  #waiting = 0
  #worker: Worker | undefined
  #ending: NodeJS.Timeout | undefined

  /** Takes the pixels: the caller must not use them any more. */
  async encode(request: JpegRequest): Promise<Buffer> {
    if (this.#waiting >= mostWaiting) refuse('guest_unavailable', 'too many pictures are encoded; retry, or send `png`')
    this.#waiting++
    try {
      return await this.#slot.run(AbortSignal.timeout(waitMs), () => this.#encode(request))
    } catch {
      return refuse('guest_unavailable', 'the picture was not encoded in time; retry, or send `png`')
    } finally {
      this.#waiting--
    }
  }

  /** Ends the thread. */
  close(): void {
    clearTimeout(this.#ending)
    void this.#worker?.terminate()
    this.#worker = undefined
  }

  async #encode(request: JpegRequest): Promise<Buffer> {
    clearTimeout(this.#ending)
    const worker = this.#started()
    try {
      // Rejects where the worker fails.
      const answered = once(worker, 'message', { signal: AbortSignal.timeout(encodeMs) })
      worker.postMessage(request, [request.rgba])
      const [bytes] = (await answered) as [ArrayBuffer]
      this.#ending = setTimeout(() => this.close(), keptMs).unref()
      return Buffer.from(bytes)
    } catch (error) {
      this.close()
      throw error
    }
  }

  #started(): Worker {
    if (this.#worker) return this.#worker
    const worker = new Worker(jpegWorker.start, {
      eval: jpegWorker.eval,
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
