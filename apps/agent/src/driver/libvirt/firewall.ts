// The firewall of the guests' network: a table of nftables, in the kernel whether or not the agent runs. The agent checks it,
// and restores it if it was changed.
import { spawn } from 'node:child_process'
import type { Log } from '@dormouse/process'
import { type FirewallSpec, firewallRules, removal } from './firewall-rules.ts'

/** Runs `nft` with these arguments and this input; returns its output, or throws a sentence that says what to do. */
export type Nft = (args: readonly string[], input?: string) => Promise<string>

export class Firewall {
  readonly #spec: FirewallSpec
  readonly #log: Log
  readonly #nft: Nft
  /** What nftables lists for our table when it is complete; undefined until this process has loaded it. */
  #expected: string | undefined
  #ensuring: Promise<void> | undefined

  constructor(spec: FirewallSpec, log: Log, nft: Nft = runNft) {
    this.#spec = spec
    this.#log = log
    this.#nft = nft
  }

  /** The firewall is complete when this resolves. Throws a sentence for the operator if it cannot be loaded. */
  ensure(): Promise<void> {
    this.#ensuring ??= this.#ensure().finally(() => {
      this.#ensuring = undefined
    })
    return this.#ensuring
  }

  /** Removes the firewall. */
  async remove(): Promise<void> {
    this.#expected = undefined
    await this.#nft(['-f', '-'], removal(this.#spec.table))
  }

  async #ensure(): Promise<void> {
    const { table } = this.#spec
    if (this.#expected !== undefined) {
      const now = await this.#listing().catch((error: Error) => error)
      if (now === this.#expected) return
      // On a busy host nft may take too long, which is no change of the rules.
      if (typeof now === 'string' || /No such file/.test(now.message))
        this.#log.warn(
          { table, alarm: true, alarmKind: 'firewall' },
          'the firewall of the guests’ network was changed from outside; it is restored',
        )
    }
    await this.#nft(['-f', '-'], firewallRules(this.#spec))
    this.#expected = await this.#listing()
  }

  /** Without what changes by itself: which guests requested an address recently. */
  #listing(): Promise<string> {
    return this.#nft(['-s', '-t', 'list', 'table', 'inet', this.#spec.table])
  }
}

const timeoutMs = 10_000
const remedies: readonly (readonly [RegExp, string])[] = [
  [/ENOENT/, 'nft is not installed (Debian: apt-get install nftables, then restart the agent)'],
  [
    /not permitted|must be root/i,
    'the agent has no permission to change the firewall; give its unit CAP_NET_ADMIN and AF_NETLINK',
  ],
]

export const runNft: Nft = (args, input = '') =>
  new Promise((resolve, reject) => {
    const env = { ...process.env, PATH: `${process.env.PATH ?? ''}:/usr/sbin:/sbin`, LC_ALL: 'C' }
    const child = spawn('nft', args, { env, timeout: timeoutMs, killSignal: 'SIGKILL' })
    const output = { out: '', err: '' }
    const fail = (why: string) => reject(new Error(remedies.find(([form]) => form.test(why))?.[1] ?? `nft: ${why}`))
    child.stdout.setEncoding('utf8').on('data', (text: string) => (output.out += text))
    child.stderr.setEncoding('utf8').on('data', (text: string) => (output.err += text))
    child.stdin.on('error', () => undefined).end(input)
    child.on('error', (error: NodeJS.ErrnoException) => fail(error.code ?? error.message))
    child.on('close', (code, signal) =>
      code === 0 ? resolve(output.out) : fail(output.err.trim() || `${signal ?? code}`),
    )
  })
