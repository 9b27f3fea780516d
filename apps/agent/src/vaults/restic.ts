// One run of restic: its words, its limits, and what its end means. Knows no desktop. restic's formats and cryptography are its
// own; only its documented JSON lines and its exit code are read, and for a failure the sentences that it has had since 0.14.
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import type { Vault } from './vault-files.ts'

/**
 * `locked`: another process holds the repository; try again later. `missing`: there is no repository. `gone`: it has no such
 * snapshot. `damaged`: a part of it is lost or wrong. `stopped`: we ended it.
 */
export type VaultTrouble =
  | 'locked'
  | 'full'
  | 'password'
  | 'missing'
  | 'gone'
  | 'damaged'
  | 'unreachable'
  | 'no_restic'
  | 'stopped'
  | 'failed'

export class VaultError extends Error {
  readonly trouble: VaultTrouble
  constructor(trouble: VaultTrouble, message: string, options?: ErrorOptions) {
    super(message, options)
    this.trouble = trouble
  }
}

export interface ResticRun {
  vault: Vault
  words: readonly string[]
  /** The working folder; names that restic records are relative to it. */
  cwd: string
  /** Shared by all runs, so that an unchanged repository's index is read once. */
  cacheDir: string
  signal: AbortSignal
  /** Each JSON line of standard output. */
  onLine?: (line: Record<string, unknown>) => void
  /** Takes standard output as it is, in place of lines. If it rejects, restic is ended. */
  output?: (stdout: Readable) => Promise<void>
  /** KiB a second that it may send, and receive. */
  limitKiBps?: number | undefined
}

/** How much of each stream is kept for the reason of a failure. */
const keptBytes = 16 * 1024
const lineMax = 1024 * 1024
/** Between SIGINT, after which restic removes its locks, and SIGKILL. */
const graceMs = 10_000

/** Resolves when restic has ended with 0. Otherwise throws a `VaultError`. */
export async function restic(run: ResticRun): Promise<void> {
  const { vault, signal, limitKiBps } = run
  if (signal.aborted) throw new VaultError('stopped', 'restic was not started')
  const limits = limitKiBps ? [`--limit-upload=${limitKiBps}`, `--limit-download=${limitKiBps}`] : []
  const words = ['--quiet', ...(run.output ? [] : ['--json']), ...limits, ...vault.words, ...run.words]
  // Idle priority for processor and disk: a desktop goes before its copy.
  const child = spawn('nice', ['-n', '19', 'ionice', '-c', '3', '-t', 'restic', ...words], {
    cwd: run.cwd,
    // Nothing of the agent's own environment: restic gets the vault's secrets and no others.
    env: {
      PATH: process.env.PATH ?? '/usr/bin:/bin',
      HOME: run.cacheDir,
      RESTIC_CACHE_DIR: run.cacheDir,
      RESTIC_PROGRESS_FPS: '1',
      GOMAXPROCS: '1',
      ...vault.environment,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
    // A group of its own: its end ends what it has started, such as ssh.
    detached: true,
  })
  const said = { text: '' }
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said.text = `${said.text}${text}`.slice(-keptBytes)
  })
  const readLines = async (stdout: Readable) => {
    for await (const text of createInterface({ input: stdout })) {
      const line = parsed(text)
      if (line) run.onLine?.(line)
      else said.text = `${said.text}${text}\n`.slice(-keptBytes)
    }
  }
  const kill = (name: NodeJS.Signals) => {
    try {
      if (child.pid) process.kill(-child.pid, name)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
    }
  }
  let killing: NodeJS.Timeout | undefined
  const stop = () => {
    kill('SIGINT')
    killing = setTimeout(() => kill('SIGKILL'), graceMs)
  }
  signal.addEventListener('abort', stop, { once: true })
  const taken = (run.output ?? readLines)(child.stdout)
  taken.catch(() => kill('SIGKILL'))
  try {
    const code = await new Promise<number | null>((resolve, reject) => {
      child.once('error', reject)
      child.once('close', resolve)
    })
    if (signal.aborted) throw new VaultError('stopped', 'restic was stopped')
    if (code !== null && code !== 0) throw failureOf(code, said.text)
    // Its failure, such as a full disk, is why restic was ended.
    await taken
    if (code === null) throw failureOf(code, said.text)
  } catch (error) {
    if (child.pid !== undefined) throw error
    throw new VaultError('no_restic', 'restic cannot be started; install it: `apt-get install restic`', {
      cause: error,
    })
  } finally {
    clearTimeout(killing)
    signal.removeEventListener('abort', stop)
  }
}

function parsed(text: string): Record<string, unknown> | undefined {
  if (!text.startsWith('{') || text.length > lineMax) return undefined
  try {
    return JSON.parse(text) as Record<string, unknown>
  } catch {
    return undefined
  }
}

/** restic has one exit code for all that is fatal, so its sentence tells them apart. The first that fits counts. */
const sentences: readonly (readonly [RegExp, VaultTrouble, string])[] = [
  [/already locked/i, 'locked', 'another process uses the vault'],
  [/wrong password|no key found/i, 'password', 'the vault has another password, or its keys are gone'],
  [/no matching ID|no snapshot found|not found in snapshot/i, 'gone', 'the vault does not have this copy any more'],
  [/no space left|disk quota exceeded|quota ?exceeded|insufficient storage/i, 'full', 'the vault is full'],
  [
    /connection (?:refused|reset|timed out)|no route to host|broken pipe|i\/o timeout|unable to start the sftp session|no such host|x509|permission denied|access ?denied|input\/output error|stale file handle|signature/i,
    'unreachable',
    'the vault does not answer, or refuses this host',
  ],
  [
    /unable to open config file|is there a repository|does not exist|config.*(?:no such file|not exist)/i,
    'missing',
    'there is no repository at the vault’s address',
  ],
  [
    /ciphertext verification failed|invalid data returned|unexpected file size|StreamPack|not found in repository|unable to load|hash .* does not match|repository contains errors|panic: runtime error/i,
    'damaged',
    'a part of the vault is damaged or gone',
  ],
]

function failureOf(code: number | null, said: string): VaultError {
  if (code === 127 || code === 126)
    return new VaultError('no_restic', 'restic is not installed; install it: `apt-get install restic`')
  const [, trouble, what] = sentences.find(([form]) => form.test(said)) ?? []
  const last = said.trim().split('\n').slice(-3).join(' ').slice(0, 300)
  return new VaultError(trouble ?? 'failed', `${what ?? `restic ended with ${code}`}: ${last}`)
}
