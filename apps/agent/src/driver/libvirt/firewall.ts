// The wall around the guests' network, kept up in the kernel by nftables. It stands whether or not the agent runs; the agent
// looks after it, and puts it up again where somebody has taken it down.
import { spawn } from 'node:child_process'
import type { Log } from '@dormouse/process'
import { type Enclosure, firewallRules, removal } from './firewall-rules.ts'

/** Runs `nft` with these words and this input; answers its output, or throws a sentence that says what to do. */
export type Nft = (words: readonly string[], input?: string) => Promise<string>

export class Firewall {
  readonly #enclosure: Enclosure
  readonly #log: Log
  readonly #nft: Nft
  /** What nftables says of our table when it is whole; undefined until this process has put it up. */
  #whole: string | undefined
  #holding: Promise<void> | undefined

  constructor(enclosure: Enclosure, log: Log, nft: Nft = runNft) {
    this.#enclosure = enclosure
    this.#log = log
    this.#nft = nft
  }

  /** The wall stands when this resolves. Throws a sentence for the operator where it cannot be put up. */
  hold(): Promise<void> {
    this.#holding ??= this.#hold().finally(() => {
      this.#holding = undefined
    })
    return this.#holding
  }

  /** Takes the wall down. */
  async remove(): Promise<void> {
    this.#whole = undefined
    await this.#nft(['-f', '-'], removal(this.#enclosure.table))
  }

  async #hold(): Promise<void> {
    const { table } = this.#enclosure
    if (this.#whole !== undefined) {
      if ((await this.#listing().catch(() => undefined)) === this.#whole) return
      this.#log.warn({ table, alarm: true }, 'somebody changed the firewall of the guests’ network; it is put back')
    }
    await this.#nft(['-f', '-'], firewallRules(this.#enclosure))
    this.#whole = await this.#listing()
  }

  /** Without what changes by itself: which guests have asked for an address lately. */
  #listing(): Promise<string> {
    return this.#nft(['-s', '-t', 'list', 'table', 'inet', this.#enclosure.table])
  }
}

const timeoutMs = 10_000
const remedies: readonly (readonly [RegExp, string])[] = [
  [/ENOENT/, 'nft is not installed (Debian: apt-get install nftables, then restart the agent)'],
  [/not permitted|must be root/i, 'the agent may not change the firewall: give its unit CAP_NET_ADMIN and AF_NETLINK'],
]

const runNft: Nft = (words, input = '') =>
  new Promise((resolve, reject) => {
    const env = { ...process.env, PATH: `${process.env.PATH ?? ''}:/usr/sbin:/sbin`, LC_ALL: 'C' }
    const child = spawn('nft', words, { env, timeout: timeoutMs, killSignal: 'SIGKILL' })
    const said = { out: '', err: '' }
    const fail = (why: string) => reject(new Error(remedies.find(([form]) => form.test(why))?.[1] ?? `nft: ${why}`))
    child.stdout.setEncoding('utf8').on('data', (text: string) => (said.out += text))
    child.stderr.setEncoding('utf8').on('data', (text: string) => (said.err += text))
    child.stdin.on('error', () => undefined).end(input)
    child.on('error', (error: NodeJS.ErrnoException) => fail(error.code ?? error.message))
    child.on('close', (code, signal) => (code === 0 ? resolve(said.out) : fail(said.err.trim() || `${signal ?? code}`)))
  })
