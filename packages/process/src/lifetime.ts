// Starts a process, waits for its end, and closes its parts within a deadline. Does not know the parts.
import { ConfigError } from './config.ts'
import { createLog, type Log } from './log.ts'
import { watchMachineTrust } from './machine-trust.ts'
import { lookAgain } from './reread.ts'
import { keepWatchdogFed, tellServiceManager } from './service-manager.ts'
import { whyNotStarted } from './start-failures.ts'

export interface ProcessOptions {
  name: string
  /** Starts everything and registers how each part closes. Resolves when the process serves. */
  start: (lifetime: Lifetime) => Promise<void>
  /** For closing all parts together; 10 s by default. */
  deadlineMs?: number
}

interface Closer {
  name: string
  close: () => Promise<void> | void
}

export class Lifetime {
  /** The log of the process's start and end. The start may replace it by the configured one. */
  log: Log
  /** Why the start failed. */
  failure: unknown
  readonly #closers: Closer[] = []
  readonly #closing = new AbortController()
  readonly #ended = Promise.withResolvers<string>()
  #isReady = false

  constructor(log: Log) {
    this.log = log
  }

  /** Aborts when the process begins to close. */
  get closing(): AbortSignal {
    return this.#closing.signal
  }

  /** Resolves with the reason when the process is to end. */
  get ended(): Promise<string> {
    return this.#ended.promise
  }

  /** Closers run one after another, the last registered first, so that a part closes before those it uses. */
  onClose(name: string, close: () => Promise<void> | void): void {
    this.#closers.push({ name, close })
  }

  /** Tells systemd that the process serves. A process that waits for another, such as a database, serves meanwhile. */
  ready(): void {
    if (this.#isReady) return
    this.#isReady = true
    tellServiceManager('READY=1')
    keepWatchdogFed()
  }

  /** Requests the end of the process. Only the first reason counts. */
  end(reason: string): void {
    tellServiceManager('STOPPING=1')
    this.#closing.abort(new Error(`the process is ending: ${reason}`))
    this.#ended.resolve(reason)
  }

  /** Closes all parts. Returns whether each closed without error and within the deadline; the log names those that did not. */
  async close(deadlineMs: number): Promise<boolean> {
    const late = Promise.withResolvers<'late'>()
    const timer = setTimeout(() => late.resolve('late'), deadlineMs)
    let clean = true
    for (let closer = this.#closers.pop(); closer; closer = this.#closers.pop()) {
      const outcome = await Promise.race([this.#closeOne(closer), late.promise])
      if (outcome === 'late') {
        const left = this.#closers.map(({ name }) => name).reverse()
        this.log.error({ hung: closer.name, left, deadlineMs }, 'closing hung')
        return false
      }
      clean &&= outcome
    }
    clearTimeout(timer)
    return clean
  }

  async #closeOne({ name, close }: Closer): Promise<boolean> {
    try {
      await close()
      return true
    } catch (err) {
      this.log.error({ err, part: name }, 'a part failed to close')
      return false
    }
  }
}

/**
 * Runs a process from start to exit. Exit code 0: a clean end by SIGTERM, SIGINT or `lifetime.end`. Exit code 1: a failed
 * start, a failed or late close, or an uncaught error. A second signal exits at once. Why a start failed is the last line.
 */
export async function runProcess({ name, start, deadlineMs = 10_000 }: ProcessOptions): Promise<never> {
  const lifetime = new Lifetime(createLog({ name }))
  endOnSignals(lifetime)
  rereadFiles(lifetime)
  exitOnUncaught(lifetime)
  const started = begin(lifetime, start)
  const reason = await lifetime.ended
  const failed = lifetime.failure !== undefined
  if (!failed) lifetime.log.info({ reason }, 'closing')
  const dueAt = performance.now() + deadlineMs
  // An interrupted start may still register parts to close.
  const well = await Promise.race([started, after(deadlineMs)])
  const clean = await lifetime.close(dueAt - performance.now())
  if (failed) sayWhy(name, lifetime.failure)
  else lifetime.log.info({ clean }, 'closed')
  process.exit(well && clean ? 0 : 1)
}

async function begin(lifetime: Lifetime, start: ProcessOptions['start']): Promise<boolean> {
  try {
    await start(lifetime)
    lifetime.ready()
    return true
  } catch (err) {
    if (lifetime.closing.aborted) return true
    lifetime.failure = err
    lifetime.end('failed start')
    return false
  }
}

/** Whatever the configured level is. An error that has no sentence of its own is logged with its stack. */
function sayWhy(name: string, err: unknown): void {
  if (err instanceof ConfigError) return void process.stderr.write(`${err.message}\n`)
  const why = whyNotStarted(err, process.env)
  createLog({ name }).fatal(why === undefined ? { err } : { why }, 'could not start')
}

function after(delayMs: number): Promise<false> {
  return new Promise((resolve) => setTimeout(resolve, delayMs, false))
}

function endOnSignals(lifetime: Lifetime): void {
  for (const [signal, number] of [
    ['SIGTERM', 15],
    ['SIGINT', 2],
  ] as const) {
    process.on(signal, () => {
      if (lifetime.closing.aborted) process.exit(128 + number)
      lifetime.end(signal)
    })
  }
}

const lookEveryMs = 10_000

/** Soon after a change, and at SIGHUP. At a terminal, SIGHUP means that it was closed, and ends the process. */
function rereadFiles(lifetime: Lifetime): void {
  watchMachineTrust(process.env)
  setInterval(() => lookAgain(lifetime.log), lookEveryMs).unref()
  if (!process.stdin.isTTY) process.on('SIGHUP', () => lookAgain(lifetime.log, true))
}

/** After an uncaught error the process's state cannot be trusted: log it and exit. What is on disk stays valid. */
function exitOnUncaught(lifetime: Lifetime): void {
  for (const kind of ['uncaughtException', 'unhandledRejection'] as const) {
    process.on(kind, (err: unknown) => {
      lifetime.log.fatal({ err, kind }, 'uncaught error')
      process.exit(1)
    })
  }
}
