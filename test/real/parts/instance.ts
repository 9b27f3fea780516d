// `npm start` as the tests use it: the real thing in a process of its own, on a folder of its own, reached as a user does.
import { spawn } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { closeSync, existsSync, mkdirSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Client, createAdminClient, createClient, Desktop } from '@dormouse/client'
import { endWithUs } from '../../../scripts/testbed/end-with-us.ts'
import { alive, type Identity, identify, signal, waitGone } from '../../../scripts/testbed/processes.ts'
import { logFiles, Secrets } from '../../secrets.ts'
import { waitFor } from '../../wait-for.ts'

const root = fileURLToPath(new URL('../../../', import.meta.url))

export interface Local {
  base_url: string
  api_key: string
  operator_key: string
}

const toldChars = 20_000

export class Instance {
  readonly dataDir: string
  readonly #folder: string
  readonly #env: Record<string, string>
  /** A command that runs the words after it, as another user. */
  readonly #as: readonly string[]
  #starter: Identity | undefined
  /** If this process is ended itself, nobody else types Ctrl-C. */
  #unbind: (() => void) | undefined
  #port = 0

  private constructor(folder: string, env: Record<string, string>, as: readonly string[]) {
    this.#folder = folder
    this.#env = env
    this.#as = as
    // Under a folder that only root may enter, and deep: as a clone in root's home would be.
    this.dataDir = join(folder, 'closed', 'a-rather-long-name-for-a-folder'.repeat(3), 'data')
    mkdirSync(join(folder, 'closed'), { mode: 0o700 })
  }

  /**
   * Starts an instance on a new folder. Its image is shared between runs: building one is a test of its own. If tests have a
   * second try, a start has one, too: most begin before any test does. A failure is reported with its logs.
   */
  static async start(
    env: Record<string, string> = {},
    words: string[] = ['--no-tour'],
    as: readonly string[] = [],
  ): Promise<Instance> {
    for (let triesLeft = process.env.CI ? 1 : 0; ; triesLeft--) {
      const instance = new Instance(mkdtempSync(join(tmpdir(), 'dormouse-real-')), env, as)
      try {
        await instance.up(words)
        return instance
      } catch (error) {
        const why = `${(error as Error).message}\n${instance.logs.slice(-toldChars)}`
        await instance[Symbol.asyncDispose]()
        if (triesLeft === 0) throw new Error(why, { cause: error })
        console.warn(`an instance is started a second time: ${why}`)
      }
    }
  }

  get log(): string {
    const file = join(this.#folder, 'start.log')
    return existsSync(file) ? readFileSync(file, 'utf8') : ''
  }

  /** All that its processes have logged. */
  get logs(): string {
    const folder = join(this.dataDir, 'run')
    const files = existsSync(folder) ? readdirSync(folder).filter((name) => name.endsWith('.log')) : []
    return files.map((name) => readFileSync(join(folder, name), 'utf8')).join('\n')
  }

  get local(): Local {
    return JSON.parse(readFileSync(join(this.dataDir, 'local.json'), 'utf8')) as Local
  }

  /** Base URLs of the replicas, if there are two. */
  get urls(): [string, string] {
    return [`http://127.0.0.1:${this.#port}`, `http://127.0.0.1:${this.#port + 1}`]
  }

  /** The name under which the starter keeps the replica at this base URL, if there are two. */
  replicaAt(url: string): string {
    return `control plane ${this.urls.indexOf(url) + 1}`
  }

  /** The URL of the instance's own Postgres. */
  get databaseUrl(): string {
    const [, , , port] = readFileSync(join(this.dataDir, 'postgres/postmaster.pid'), 'utf8').split('\n')
    const password = readFileSync(join(this.dataDir, 'postgres/dormouse.password'), 'utf8').trim()
    return `postgres://dormouse:${password}@127.0.0.1:${port}/dormouse`
  }

  get client(): Client {
    return createClient({ baseUrl: this.local.base_url, apiKey: this.local.api_key })
  }

  /** Desktops that sleep wake by restoring their memories then. */
  async dropWarmCopies(): Promise<void> {
    const admin = createAdminClient({ baseUrl: this.local.base_url, operatorKey: this.local.operator_key })
    for (const { id } of (await admin.listHosts()).hosts) await admin.dropWarmCopies(id)
  }

  create(options: Partial<Parameters<typeof Desktop.create>[0]> = {}): Promise<Desktop> {
    return Desktop.create({ client: this.client, tier: 'small', ...options })
  }

  /** Types `npm start`, and waits until it says that it is ready. */
  async up(words: string[] = ['--no-tour']): Promise<void> {
    this.#port ||= await freePort()
    const log = openSync(join(this.#folder, 'start.log'), 'a')
    const [command, ...more] = [...this.#as, 'sh', join(root, 'scripts/with-node.sh'), 'scripts/start.ts', ...words]
    const child = spawn(command!, more, {
      cwd: root,
      detached: true,
      stdio: ['ignore', log, log],
      env: {
        ...process.env,
        // In a test everything that could be logged is, and must be clean.
        ...(process.env.VITEST && { DORMOUSE_LOG_LEVEL: 'trace', DORMOUSE_AGENT_LOG_LEVEL: 'trace' }),
        DORMOUSE_IMAGES_DIR: join(root, '.dormouse-test/images'),
        // Making one takes a processor for seconds; tests that count on templates have their own setting.
        DORMOUSE_AGENT_TEMPLATES_MIB: '0',
        ...this.#env,
        PORT: String(this.#port),
        DORMOUSE_DATA: this.dataDir,
      },
    })
    closeSync(log)
    this.#starter = identify(child.pid!)!
    this.#unbind = endWithUs(this.#starter, 'SIGINT', this.#folder)
    const ended = new Promise<void>((resolve) => child.on('exit', () => resolve()))
    let over = false
    void ended.then(() => {
      over = true
    })
    await waitFor(() => {
      if (over) throw new Error(`npm start ended by itself:\n${this.log}`)
      return existsSync(join(this.dataDir, 'local.json'))
    }, 180_000)
  }

  /** Types Ctrl-C and waits until everything has stopped. */
  async down(): Promise<void> {
    if (!this.#starter) return
    signal(this.#starter, 'SIGINT')
    if (!(await waitGone([this.#starter], 120_000))) throw new Error(`npm start did not stop:\n${this.log}`)
    this.#starter = undefined
    this.#unbind?.()
    const told = this.told()
    if (told.length > 0) throw new Error(`secrets stand where all may read them: ${told.join('; ')}`)
  }

  /** Secrets that any log below its folder tells: the processes’, libvirt’s, Postgres’, the starter’s. */
  told(): string[] {
    const secrets = new Secrets()
    for (const [what, value] of Object.entries(this.#secretsOnDisk())) secrets.learn(what, value)
    const own = join(this.#folder, 'start.log')
    const logs = logFiles(this.#folder).filter((file) => file !== own)
    // The starter shows the API key on purpose, and nothing else.
    const shown = this.log.replaceAll(readKeys(this.dataDir).apiKey ?? '', '')
    return [...secrets.inText('npm start', shown), ...logs.flatMap((file) => secrets.inText(file, readText(file)))]
  }

  #secretsOnDisk(): Record<string, string | undefined> {
    const { apiKey, operatorKey } = readKeys(this.dataDir)
    const inside = existsSync(this.dataDir) ? readdirSync(this.dataDir) : []
    const names = inside.flatMap((name) => [name, join(name, 'agent')])
    const hosts = names.filter((name) => existsSync(join(this.dataDir, name, 'identity.json')))
    const ofHost = (name: string) =>
      (JSON.parse(readText(join(this.dataDir, name, 'identity.json'))) as { key: { d: string } }).key.d
    return {
      'the API key': apiKey,
      'the operator’s key': operatorKey,
      'the database’s password': readText(join(this.dataDir, 'postgres/dormouse.password')).trim(),
      ...Object.fromEntries(hosts.map((name) => [`the key of ${name}`, ofHost(name)])),
    }
  }

  /** The process of that name (`control plane`, `agent`) that the starter keeps running now. */
  process(name: string): Identity | undefined {
    const file = join(this.dataDir, 'run', `${name}.pid`)
    if (!existsSync(file)) return undefined
    const text = readFileSync(file, 'utf8')
    // Opened and not written yet: the process is being started.
    if (text === '') return undefined
    const identity = JSON.parse(text) as Identity
    return alive(identity) ? identity : undefined
  }

  /** Kills it, and waits until the starter has put another in its place. */
  async kill(name: string): Promise<void> {
    const victim = await waitFor(() => this.process(name))
    signal(victim, 'SIGKILL')
    await waitFor(() => {
      const now = this.process(name)
      return now && now.started !== victim.started
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.down()
    rmSync(this.#folder, { recursive: true, force: true })
  }
}

const readText = (file: string): string => (existsSync(file) ? readFileSync(file, 'utf8') : '')

/** What the starter has made for itself; nothing if it did not come so far. */
function readKeys(dataDir: string): { apiKey?: string; operatorKey?: string } {
  return JSON.parse(readText(join(dataDir, 'keys.json')) || '{}') as { apiKey?: string; operatorKey?: string }
}

/**
 * A port that is free, with the one after it, for a second replica. Both are listened on later, and again after a kill:
 * so they are none of those that Linux gives to whoever connects to somewhere meanwhile.
 */
async function freePort(): Promise<number> {
  const [firstGiven] = readFileSync('/proc/sys/net/ipv4/ip_local_port_range', 'utf8').split('\t').map(Number)
  for (;;) {
    // Among those below there is one, 10080, that `fetch` refuses to ask.
    const port = randomInt(10_081, Math.max(firstGiven! - 1, 20_000))
    if ((await isFree(port)) && (await isFree(port + 1))) return port
  }
}

/** Whether one can listen on it. */
async function isFree(port: number): Promise<boolean> {
  const server = createServer()
  const { promise, resolve } = Promise.withResolvers<boolean>()
  server.on('error', () => resolve(false)).listen(port, '127.0.0.1', () => resolve(true))
  const free = await promise
  if (free) await new Promise((closed) => server.close(closed))
  return free
}
