// How this machine proves who logs in: the SSH agent, key files, and what is typed. Nothing secret is on a command line.
import { existsSync, readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import type { AnyAuthMethod, AuthenticationType } from 'ssh2'
import ssh2 from 'ssh2'
import { CliError, exitCodes } from '../failures.ts'
import type { Terminal } from '../terminal.ts'
import type { Target } from './target.ts'

export interface LoginOptions {
  /** A private key file; others are not tried. */
  identity?: string
  /** The SSH agent's socket. */
  agent?: string
}

const ordinaryKeys = ['id_ed25519', 'id_ecdsa', 'id_rsa'].map((name) => join(homedir(), '.ssh', name))
const passwordTries = 3

type Candidate = { types: AuthenticationType[]; method(): Promise<AnyAuthMethod | undefined> }

export class Login {
  /** The password that was typed last: sudo often has the same. */
  password: string | undefined
  /** What was not tried, or failed here, for the error. */
  readonly notes: string[] = []
  readonly #target: Target
  readonly #options: LoginOptions
  readonly #terminal: Terminal
  readonly #candidates: Candidate[]

  constructor(target: Target, options: LoginOptions, terminal: Terminal) {
    if (options.identity && !existsSync(options.identity))
      throw new CliError(`there is no key file ${options.identity}`, 'check --identity', exitCodes.usage)
    this.#target = target
    this.#options = options
    this.#terminal = terminal
    this.#candidates = [...this.#keys(), ...this.#typed()]
  }

  /** The next method that the server allows; undefined where there is none left. */
  async next(allowed: readonly string[] | null): Promise<AnyAuthMethod | undefined> {
    for (;;) {
      const candidate = this.#candidates.shift()
      if (!candidate) return undefined
      if (allowed && !candidate.types.some((type) => allowed.includes(type === 'agent' ? 'publickey' : type))) continue
      const method = await candidate.method()
      if (method) return method
    }
  }

  #keys(): Candidate[] {
    const { identity, agent } = this.#options
    const username = this.#target.user
    const files = identity ? [identity] : ordinaryKeys.filter((file) => existsSync(file))
    const ofFile = (file: string): Candidate => ({ types: ['publickey'], method: () => this.#ofFile(file) })
    const ofAgent: Candidate = { types: ['agent'], method: async () => ({ type: 'agent', username, agent: agent! }) }
    return [...(agent && !identity && existsSync(agent) ? [ofAgent] : []), ...files.map(ofFile)]
  }

  async #ofFile(file: string): Promise<AnyAuthMethod | undefined> {
    const text = readFileSync(file)
    let key = ssh2.utils.parseKey(text)
    if (key instanceof Error && /encrypted|passphrase/i.test(key.message)) {
      if (!this.#terminal.interactive) return this.#skipped(`${file} needs a passphrase, and there is no terminal`)
      const passphrase = await this.#terminal.ask(`Passphrase of ${file}: `, { hidden: true })
      if (passphrase === '') return this.#skipped(`${file} was skipped`)
      key = ssh2.utils.parseKey(text, passphrase)
    }
    // The library's own message could quote the file.
    if (key instanceof Error)
      return this.#skipped(`${file} cannot be read as a private key, or the passphrase is wrong`)
    const [first] = [key].flat()
    return first && { type: 'publickey', username: this.#target.user, key: first }
  }

  #skipped(why: string): undefined {
    this.notes.push(why)
  }

  #typed(): Candidate[] {
    if (!this.#terminal.interactive) return []
    const { user: username } = this.#target
    const one: Candidate = {
      types: ['password'],
      method: async () => {
        this.password = await this.#terminal.ask(`Password of ${this.#target.label}: `, { hidden: true })
        if (this.password !== '') return { type: 'password', username, password: this.password }
        // Nothing typed ends the questions.
        this.#candidates.length = 0
        return undefined
      },
    }
    const dialogue: Candidate = {
      types: ['keyboard-interactive'],
      method: async () => ({
        type: 'keyboard-interactive',
        username,
        prompt: (_name, _instructions, _language, prompts, finish) => {
          void this.#answers(prompts).then(finish, () => finish([]))
        },
      }),
    }
    return [...Array<Candidate>(passwordTries).fill(one), dialogue]
  }

  /** What the server asks is shown, so its text is cut. */
  async #answers(prompts: { prompt: string; echo?: boolean }[]): Promise<string[]> {
    const answers: string[] = []
    for (const { prompt, echo } of prompts.slice(0, 5)) {
      const answer = await this.#terminal.ask(`${this.#target.label}: ${prompt.slice(0, 100)}`, { hidden: !echo })
      if (!echo) this.password = answer
      answers.push(answer)
    }
    return answers
  }
}
