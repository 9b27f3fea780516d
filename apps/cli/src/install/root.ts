// Commands as root on a machine: the login's own rights, or sudo. A password goes to sudo's standard input and nowhere else.
import { PassThrough, type Readable } from 'node:stream'
import { CliError, exitCodes } from '../failures.ts'
import type { Terminal } from '../terminal.ts'
import { commandLine } from './quote.ts'
import type { Ended, RunOptions, Session } from './session.ts'

/** How root's rights are had on this machine. */
type Way = { prefix: string; password?: string }

const tries = 3

export class Root {
  readonly session: Session
  readonly #way: Way

  private constructor(session: Session, way: Way) {
    this.session = session
    this.#way = way
  }

  /** Finds out how to become root; asks for sudo's password if it needs one. */
  static async of(session: Session, terminal: Terminal): Promise<Root> {
    const { stdout } = await session.run(commandLine('id -u', []))
    if (stdout.trim() === '0') return new Root(session, { prefix: '' })
    // Without -k, an earlier sudo would make the password of the next one part of a command's input.
    const free = await session.run('sudo -k -n true')
    if (free.code === 0) return new Root(session, { prefix: 'sudo -n ' })
    if (free.code === 127) throw notRoot(session, 'and there is no sudo', 'log in as root, or install sudo')
    return new Root(session, { prefix: `sudo -k -S -p '' `, password: await passwordOf(session, terminal) })
  }

  /** Whether commands go through sudo. */
  get how(): string {
    return this.#way.prefix === '' ? 'root' : 'sudo'
  }

  /** Runs the script with these as `$1`, `$2`, and so on. */
  run(script: string, args: readonly string[] = [], options: RunOptions = {}): Promise<Ended> {
    const { prefix, password } = this.#way
    const stdin = password === undefined ? options.stdin : behind(`${password}\n`, options.stdin)
    return this.session.run(prefix + commandLine(script, args), { ...options, ...(stdin !== undefined && { stdin }) })
  }

  /** The same; rejects if the script fails. `what` is the failed work, and `next` what to do about it. */
  async must(
    what: string,
    next: string,
    script: string,
    args: readonly string[] = [],
    options: RunOptions = {},
  ): Promise<string> {
    const ended = await this.run(script, args, options)
    if (ended.code === 0) return ended.stdout
    throw new CliError(`${what} failed on ${this.session.target.label}: ${lastLines(ended)}`, next)
  }
}

/** The end of what a failed command printed, on one line. */
export function lastLines({ stdout, stderr, code }: Ended): string {
  const lines = (stderr.trim() || stdout.trim()).split('\n').map((line) => line.trim())
  return lines.slice(-4).join(' / ').slice(-600) || `exit code ${code}`
}

function behind(first: string, rest: string | Readable = ''): string | Readable {
  if (typeof rest === 'string') return first + rest
  const joined = new PassThrough()
  joined.write(first)
  rest.on('error', (error) => joined.destroy(error))
  joined.on('close', () => rest.destroy())
  return rest.pipe(joined)
}

async function passwordOf(session: Session, terminal: Terminal): Promise<string> {
  if (!terminal.interactive)
    throw notRoot(session, 'and sudo needs a password', 'run this at a terminal, which asks for it, or log in as root')
  for (let attempt = 0; attempt < tries; attempt++) {
    const password = await terminal.ask(`Password for sudo on ${session.target.label}: `, { hidden: true })
    if (password === '') break
    if (await isAccepted(session, password)) return password
    terminal.note('sudo did not accept it.')
  }
  throw notRoot(session, 'and sudo did not accept a password', 'check that this user may use sudo')
}

const isAccepted = async (session: Session, password: string): Promise<boolean> =>
  (await session.run(`sudo -k -S -p '' true`, { stdin: `${password}\n` })).code === 0

const notRoot = ({ target }: Session, why: string, next: string): CliError =>
  new CliError(`the login to ${target.label} is not root, ${why}`, next, exitCodes.denied)
