// Whether a server is the one that was meant: by `--host-key`, by known_hosts, or by asking at the terminal. A key that is
// none of these ends the connection before anything secret is sent.
import { createHash } from 'node:crypto'
import { appendFileSync, existsSync, mkdirSync, readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { CliError, exitCodes } from '../failures.ts'
import type { Terminal } from '../terminal.ts'
import { judgeKey, knownTypes, lineFor, typeOf, type Verdict } from './known-hosts.ts'
import type { Target } from './target.ts'

export interface HostKeyOptions {
  /** `SHA256:…`: only this key is accepted. */
  hostKey?: string
  /** Files in OpenSSH's format; an accepted key is added to the first. */
  knownHosts?: string[]
  /** It leads to the machine that is meant, so `--host-key` is not about it. */
  isJump?: boolean
}

const ordinaryFiles = [join(homedir(), '.ssh/known_hosts'), '/etc/ssh/ssh_known_hosts']

/** As `ssh-keygen -l` prints it. */
export function fingerprint(key: Buffer): string {
  return `SHA256:${createHash('sha256').update(key).digest('base64').replace(/=+$/, '')}`
}

/** All that are accepted, in the order in which they are asked for. SHA-1 signatures are not. */
const algorithms = [
  'ssh-ed25519',
  'ecdsa-sha2-nistp256',
  'ecdsa-sha2-nistp384',
  'ecdsa-sha2-nistp521',
  'rsa-sha2-512',
  'rsa-sha2-256',
] as const
export type KeyAlgorithm = (typeof algorithms)[number]

export class HostKey {
  readonly #target: Target
  readonly #options: HostKeyOptions
  readonly #terminal: Terminal

  constructor(target: Target, options: HostKeyOptions, terminal: Terminal) {
    if (options.hostKey !== undefined && !/^SHA256:[A-Za-z0-9+/]{43}$/.test(options.hostKey))
      throw new CliError(
        '--host-key must be SHA256: and 43 characters',
        `on the host, \`ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub\` prints it`,
        exitCodes.usage,
      )
    this.#target = target
    this.#options = options
    this.#terminal = terminal
  }

  get #files(): string[] {
    return this.#options.knownHosts ?? ordinaryFiles
  }

  /** Types that are known of this host come first: a server with several keys then shows one that can be compared. */
  algorithms(): KeyAlgorithm[] {
    const types = new Set(knownTypes(this.#known(), this.#target.host, this.#target.port))
    const isKnown = (name: KeyAlgorithm) => types.has(name.startsWith('rsa-') ? 'ssh-rsa' : name)
    return [...algorithms.filter(isKnown), ...algorithms.filter((name) => !isKnown(name))]
  }

  /** Rejects unless the key is the host's. */
  async check(key: Buffer): Promise<void> {
    const { hostKey } = this.#options
    const shown = fingerprint(key)
    if (hostKey !== undefined) {
      if (hostKey === shown) return
      throw this.#refused(`its key is ${shown}, not the one of --host-key`, 'ask who runs the host which key is right')
    }
    const { host, port } = this.#target
    const verdict = judgeKey(this.#known(), host, port, key)
    if (verdict !== 'known') await this.#decide(verdict, key, shown)
  }

  async #decide(verdict: Exclude<Verdict, 'known'>, key: Buffer, shown: string): Promise<void> {
    const { host, port, label } = this.#target
    const name = port === 22 ? host : `[${host}]:${port}`
    if (verdict === 'revoked') throw this.#refused('its key is revoked in known_hosts', 'do not connect to it')
    if (verdict === 'changed')
      throw this.#refused(
        `its key ${shown} is not the one in known_hosts; another machine may be answering for it`,
        `find out why it changed; if it is right, run ssh-keygen -R '${name}' and try again`,
      )
    if (!this.#terminal.interactive)
      throw this.#refused(
        `its key ${shown} is not in known_hosts`,
        this.#options.isJump
          ? 'compare it with the host’s, then add it to known_hosts; --host-key is for the machine behind --jump'
          : `compare it with the host's, then add --host-key ${shown}`,
      )
    this.#terminal.note(`The key of ${label} is not known: ${typeOf(key)} ${shown}`)
    const answer = await this.#terminal.ask('Is it right? Type yes, or its fingerprint: ')
    if (answer.trim() !== 'yes' && answer.trim() !== shown)
      throw this.#refused('its key was not accepted', 'compare it with the key that the host shows on its console')
    this.#remember(key)
  }

  #remember(key: Buffer): void {
    const file = this.#files[0]!
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
    const before = existsSync(file) ? readFileSync(file, 'utf8') : ''
    const separator = before === '' || before.endsWith('\n') ? '' : '\n'
    appendFileSync(file, separator + lineFor(this.#target.host, this.#target.port, key), { mode: 0o600 })
    this.#terminal.note(`Added to ${file}.`)
  }

  #known(): string {
    return this.#files.map((file) => (existsSync(file) ? readFileSync(file, 'utf8') : '')).join('\n')
  }

  #refused(why: string, next: string): CliError {
    return new CliError(`${this.#target.label} is not trusted: ${why}`, next, exitCodes.denied, { code: 'host_key' })
  }
}
