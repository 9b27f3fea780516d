// A process of ours in a session of its own, that can be killed as a crash kills. Its log is a file.
import { spawn } from 'node:child_process'
import { closeSync, openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { endWithUs } from '../../scripts/testbed/end-with-us.ts'
import { alive, type Identity, identify, signal, waitGone } from '../../scripts/testbed/processes.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const stopMs = 20_000
const shownChars = 4_000

export interface ChildOptions {
  /** A TypeScript file, from the root of the repository. */
  file: string
  env: Record<string, string>
  logFile: string
  /** The checkout that the file belongs to; by default this one. */
  checkout?: string
  args?: readonly string[]
}

export class Child {
  readonly #options: ChildOptions
  #identity: Identity | undefined

  constructor(options: ChildOptions) {
    this.#options = options
  }

  get alive(): boolean {
    return this.#identity !== undefined && alive(this.#identity)
  }

  get pid(): number | undefined {
    return this.#identity?.pid
  }

  /** Throws with the end of its log if it was started and has ended. */
  expectAlive(): void {
    const { file, logFile } = this.#options
    if (this.#identity === undefined || this.alive) return
    throw new Error(`${file} has ended; its log ends with:\n${readFileSync(logFile, 'utf8').slice(-shownChars)}`)
  }

  /** Starts it; `more` is added to its environment this time. */
  start(more: Record<string, string> = {}): void {
    const { file, env, logFile, checkout = root, args = [] } = this.#options
    const log = openSync(logFile, 'a', 0o600)
    const { PATH = '', HOME = '' } = process.env
    const compiled = join(checkout, 'node_modules/.cache/compiled')
    const child = spawn(process.execPath, [join(checkout, file), ...args], {
      cwd: checkout,
      detached: true,
      stdio: ['ignore', log, log],
      env: { PATH, HOME, NODE_COMPILE_CACHE: compiled, ...env, ...more },
    })
    closeSync(log)
    if (child.pid === undefined) throw new Error(`${file} could not be started`)
    child.unref()
    this.#identity = identify(child.pid)
    if (this.#identity) endWithUs(this.#identity, 'SIGKILL')
  }

  async kill(name: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    if (!this.#identity) return
    signal(this.#identity, name)
    if (!(await waitGone([this.#identity], stopMs))) throw new Error(`${this.#options.file} did not end on ${name}`)
  }
}
