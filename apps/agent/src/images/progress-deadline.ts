// Ends work that makes too little progress: a server that sends a byte now and then cannot hold it forever.

export interface ProgressLimits {
  /** A connection without a byte for this long is given up, and another one is tried. */
  silenceMs: number
  /** The whole work ends if a window brings less than this many bytes. */
  windowMs: number
  minBytesPerWindow: number
  /** The longest pause between two tries. */
  maxPauseMs: number
}

export const usualLimits: ProgressLimits = {
  silenceMs: 15_000,
  windowMs: 60_000,
  minBytesPerWindow: 1024 * 1024,
  maxPauseMs: 5_000,
}

/** Counts progress, and aborts its signal if that is too little. */
export class ProgressDeadline {
  readonly #controller = new AbortController()
  readonly #timer: NodeJS.Timeout
  #bytes = 0

  constructor({ windowMs, minBytesPerWindow }: ProgressLimits, stalled: () => Error) {
    this.#timer = setInterval(() => {
      if (this.#bytes < minBytesPerWindow) this.#controller.abort(stalled())
      this.#bytes = 0
    }, windowMs).unref()
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  add(bytes: number): void {
    this.#bytes += bytes
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
  }
}
