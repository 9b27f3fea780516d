// Joins a terminal here to one in a desktop: keys there, output here, until the program ends or its user leaves.
import type { Readable, Writable } from 'node:stream'
import type { Client, ExecStateJson } from '@dormouse/client'

export interface LocalTerminal {
  input: Readable
  output: Writable
  size(): { cols: number; rows: number }
  /** Passes each key on as it is, Ctrl-C too. */
  raw(on: boolean): void
  /** Returns what ends that. */
  onResize(resized: () => void): () => void
}

interface Joining extends LocalTerminal {
  /** Of the first byte that is shown. */
  offset: number
  signal: AbortSignal
}

/** Ctrl-] */
const detachKey = 0x1d

/** Returns how it came to an end: the program has ended, or the user has typed the detach key. */
export async function joinTerminal(
  execs: Client['execs'],
  exec: ExecStateJson,
  local: Joining,
): Promise<'ended' | 'left'> {
  const over = new AbortController()
  const signal = AbortSignal.any([over.signal, local.signal])
  const left = Promise.withResolvers<'left'>()
  const keys = new Keys(execs, exec, signal)
  const typed = (bytes: Buffer) => {
    const at = bytes.indexOf(detachKey)
    keys.add(at < 0 ? bytes : bytes.subarray(0, at))
    if (at >= 0) left.resolve('left')
  }
  const resize = () => void execs.resize(exec.desktop_id, exec.id, local.size(), { signal }).catch(() => undefined)
  const offResize = local.onResize(resize)
  local.raw(true)
  local.input.on('data', typed)
  try {
    resize()
    return await Promise.race([show(execs, exec, local, signal), keys.failed, left.promise])
  } finally {
    over.abort()
    offResize()
    local.input.off('data', typed).pause()
    local.raw(false)
  }
}

async function show(execs: Client['execs'], exec: ExecStateJson, { output, offset }: Joining, signal: AbortSignal) {
  for await (const { bytes } of execs.follow(exec.desktop_id, exec.id, { offset, signal })) output.write(bytes)
  return 'ended' as const
}

/** Sends what is typed, in order, and as one piece what is typed meanwhile. */
class Keys {
  /** Never resolves. A program that takes no more input ends soon. */
  readonly failed: Promise<never>
  readonly #execs: Client['execs']
  readonly #exec: ExecStateJson
  readonly #signal: AbortSignal
  readonly #fail: (error: unknown) => void
  #waiting: Buffer[] = []
  #offset: number
  #isSending = false

  constructor(execs: Client['execs'], exec: ExecStateJson, signal: AbortSignal) {
    this.#execs = execs
    this.#exec = exec
    this.#signal = signal
    this.#offset = exec.stdin.end
    const { promise, reject } = Promise.withResolvers<never>()
    this.failed = promise
    this.#fail = reject
  }

  add(bytes: Buffer): void {
    if (bytes.length > 0) this.#waiting.push(bytes)
    if (!this.#isSending) void this.#send()
  }

  async #send(): Promise<void> {
    this.#isSending = true
    const { desktop_id: desktopId, id } = this.#exec
    try {
      while (this.#waiting.length > 0) {
        const bytes = new Uint8Array(Buffer.concat(this.#waiting.splice(0)))
        this.#offset = await this.#execs.write(desktopId, id, this.#offset, bytes, { signal: this.#signal })
      }
    } catch (error) {
      if (!this.#signal.aborted && (error as { code?: string }).code !== 'exec_input_closed') this.#fail(error)
    } finally {
      this.#isSending = false
    }
  }
}
