// A process that takes the host's memory until little is left, and holds it.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { endWithUs } from '../../../scripts/testbed/end-with-us.ts'
import { identify } from '../../../scripts/testbed/processes.ts'

/** Touches each page: memory that is only reserved costs nothing. Ends with its standard input. */
const hog = `
import { freemem, totalmem } from 'node:os'
const held = []
const take = () => {
  if (freemem() > totalmem() * Number(process.argv[1])) held.push(Buffer.alloc(64 * 2 ** 20, 1))
  else if (!told) told = process.stdout.write('full')
}
let told = false
setInterval(take, 5)
process.stdin.on('end', () => process.exit()).resume()
`

export class MemoryHog implements AsyncDisposable {
  readonly #child: ChildProcess

  private constructor(child: ChildProcess) {
    this.#child = child
  }

  /** Takes memory until only this share of it is available, also of what others give back meanwhile. */
  static async start(leaveShare: number): Promise<MemoryHog> {
    const words = ['--input-type=module', '--eval', hog, String(leaveShare)]
    const child = spawn(process.execPath, words, { stdio: ['pipe', 'pipe', 'inherit'] })
    endWithUs(identify(child.pid!)!, 'SIGKILL')
    await once(child.stdout, 'data')
    return new MemoryHog(child)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = once(this.#child, 'exit')
    this.#child.stdin!.end()
    await ended
  }
}
