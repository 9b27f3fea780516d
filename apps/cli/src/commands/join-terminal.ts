// Joins a terminal here to one in a desktop: keys there, output here, until the program ends or its user leaves.
import { once } from 'node:events'
import type { Readable, Writable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Client, ExecStateJson, Terminal } from '@dormouse/client'

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
  /** The offset of the first byte that is shown. */
  offset: number
  signal: AbortSignal
}

/** Ctrl-] */
const detachKey = 0x1d
/** What is typed before that key is waited for this long. */
const lastKeysMs = 1_000
/** A paste is read on when the desktop has taken what came before. */
const unsentMaxBytes = 256 * 1024

/** Returns how it came to an end: the program has ended, or the user has typed the detach key. */
export async function joinTerminal(
  execs: Client['execs'],
  exec: ExecStateJson,
  local: Joining,
): Promise<'ended' | 'left'> {
  const { input, signal, offset } = local
  const over = new AbortController()
  const terminal = execs.attach(exec, { offset, signal: AbortSignal.any([signal, over.signal]) })
  const left = Promise.withResolvers<'left'>()
  const keys = new Keys(terminal, input)
  const typed = (bytes: Buffer) => {
    const at = bytes.indexOf(detachKey)
    const sent = keys.send(at < 0 ? bytes : bytes.subarray(0, at))
    if (at >= 0)
      void Promise.race([sent, sleep(lastKeysMs, undefined, { ref: false })]).then(() => left.resolve('left'))
  }
  const resize = () => terminal.resize(local.size())
  const offResize = local.onResize(resize)
  local.raw(true)
  input.on('data', typed)
  try {
    resize()
    return await Promise.race([show(terminal, local.output), left.promise])
  } finally {
    over.abort()
    offResize()
    keys.stop()
    input.off('data', typed).pause()
    local.raw(false)
  }
}

async function show(terminal: Terminal, output: Writable): Promise<'ended'> {
  for await (const { bytes } of terminal.output)
    if (bytes.length > 0 && !output.write(bytes)) await once(output, 'drain')
  return 'ended'
}

/** A program that takes no more input ends soon, so what it did not take is no failure. */
class Keys {
  readonly #terminal: Terminal
  readonly #input: Readable
  #unsent = 0
  #isStopped = false

  constructor(terminal: Terminal, input: Readable) {
    this.#terminal = terminal
    this.#input = input
  }

  /** The input stays as it is from now on. */
  stop(): void {
    this.#isStopped = true
  }

  async send(bytes: Buffer): Promise<void> {
    this.#unsent += bytes.length
    if (this.#unsent > unsentMaxBytes) this.#input.pause()
    await this.#terminal.write(new Uint8Array(bytes)).catch(() => undefined)
    this.#unsent -= bytes.length
    if (!this.#isStopped && this.#unsent <= unsentMaxBytes && this.#input.isPaused()) this.#input.resume()
  }
}
