// The testbed of the modes in which a guest is hostile: a control plane, a real agent in a process of its own, a libvirtd that
// is ours, and a few desktops that are awake there. Knows no way to be hostile.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { createAdminClient, createClient } from '@dormouse/client'
import { endWithUs } from '../../../scripts/testbed/end-with-us.ts'
import { identify } from '../../../scripts/testbed/processes.ts'
import type { Target } from '../mode.ts'
import { Service } from '../service.ts'
import { Actor, type Manner } from './actor.ts'
import { Hypervisor } from './hypervisor.ts'

export interface Answer {
  status: number
  text: string
}

/** A desktop and the guest in it, which is nobody else's for a while. */
export interface Desk {
  id: string
  actor: Actor
  /** Asks the service for something, as a customer does. */
  ask(method: string, path: string, body?: string | Buffer): Promise<Answer>
}

const root = join(import.meta.dirname, '../../..')
export const deskCount = 8
/** However a guest behaves, an answer comes by then. */
const askMs = 90_000
const linkedMs = 60_000
/** What the agent may take of memory more than when it began. */
const grownMaxMiB = 384
const manifest = {
  version: '1',
  machine: 'pc',
  kernel: { file: 'vmlinuz' },
  initrd: { file: 'initrd' },
  disk: { file: 'disk.qcow2', virtual_size_bytes: 1024 },
  cmdline: '',
}

export class Stage implements AsyncDisposable {
  readonly #target: Target
  readonly #folder = mkdtempSync(join(tmpdir(), 'fuzz-'))
  readonly #actors = new Map<string, Actor>()
  readonly #desks: Desk[] = []
  readonly #free: Desk[] = []
  readonly #waiting: ((desk: Desk) => void)[] = []
  readonly #service: Service | undefined
  #hypervisor!: Hypervisor
  #agent!: ChildProcess
  #ended: string | undefined
  #beganMiB = 0

  private constructor(target: Target, service?: Service) {
    this.#target = target
    this.#service = service
  }

  /** On that service; without one, on one that is started for it. */
  static async start(target: Target | undefined, say: (line: string) => void): Promise<Stage> {
    const service = target ? undefined : await Service.at(undefined, say)
    const stage = new Stage(target ?? service!.target, service)
    try {
      await stage.#begin()
      return stage
    } catch (error) {
      await stage[Symbol.asyncDispose]()
      throw error
    }
  }

  /** The agent's process id. */
  get pid(): number {
    return this.#agent.pid!
  }

  /** Whether the agent has ended. */
  get ended(): boolean {
    return this.#ended !== undefined
  }

  /** Lends a desktop whose guest behaves so meanwhile. */
  async with<T>(manner: Manner, work: (desk: Desk, cut: () => void) => Promise<T>): Promise<T> {
    const desk = this.#free.pop() ?? (await new Promise<Desk>((resolve) => this.#waiting.push(resolve)))
    desk.actor.manner = manner
    const cut = () => this.#hypervisor.cut(desk.id)
    try {
      return await work(desk, cut)
    } finally {
      cut()
      desk.actor.manner = {}
      const next = this.#waiting.shift()
      if (next) next(desk)
      else this.#free.push(desk)
    }
  }

  /** In sentences: a process that ended, memory that grew, a desktop whose guest is fair again and does not work. */
  async verdict(): Promise<string[]> {
    if (this.#ended) return [`the agent ended: ${this.#ended}`, this.#lastWords()]
    const works = await Promise.all(this.#desks.map((desk) => this.#works(desk)))
    const grownMiB = memoryMiB(this.pid) - this.#beganMiB
    const grown = grownMiB > grownMaxMiB ? [`the agent holds ${grownMiB} MiB more than at first`] : []
    return [...works.flat(), ...grown, ...(this.#service?.verdict() ?? [])]
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const client = createClient({ baseUrl: this.#target.url, apiKey: this.#target.key })
    await Promise.allSettled(this.#desks.map(({ id }) => client.destroyDesktop(id, {}, { wait: true })))
    await this.#endAgent()
    for (const actor of this.#actors.values()) actor.close()
    await this.#hypervisor?.[Symbol.asyncDispose]()
    await this.#service?.[Symbol.asyncDispose]()
    rmSync(this.#folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 })
  }

  async #begin(): Promise<void> {
    // An image that no other host has: so it is known where its desktops wake.
    const image = `fuzz-${process.pid}`
    mkdirSync(join(this.#folder, 'images', image), { recursive: true })
    const text = JSON.stringify({ ...manifest, name: image })
    writeFileSync(join(this.#folder, 'images', image, 'manifest.json'), text)
    this.#hypervisor = await Hypervisor.start((uuid) => this.#actorOf(uuid))
    await this.#startAgent(image)
    const desks = await Promise.all(Array.from({ length: deskCount }, () => this.#makeDesk(image)))
    this.#desks.push(...desks)
    this.#free.push(...desks)
    this.#beganMiB = memoryMiB(this.pid)
  }

  async #startAgent(image: string): Promise<void> {
    const { url: baseUrl, operatorKey } = this.#target
    const admin = createAdminClient({ baseUrl, operatorKey: operatorKey! })
    const name = image
    const { token } = await admin.inviteHost({ name })
    const env = {
      DORMOUSE_AGENT_CONTROL_PLANES: baseUrl,
      DORMOUSE_AGENT_ENROL_TOKEN: token,
      DORMOUSE_AGENT_NAME: name,
      DORMOUSE_AGENT_STATE_DIR: join(this.#folder, 'agent'),
      DORMOUSE_AGENT_METRICS_LISTEN: 'off',
      DORMOUSE_AGENT_TEMPLATES_MIB: '0',
      DORMOUSE_AGENT_LIBVIRT_SOCKET: this.#hypervisor.socketPath,
      DORMOUSE_AGENT_SOCKETS_DIR: join(this.#folder, 's'),
      DORMOUSE_AGENT_IMAGES_DIR: join(this.#folder, 'images'),
      DORMOUSE_AGENT_NETWORK: 'none',
      DORMOUSE_AGENT_KVM: 'off',
      DORMOUSE_AGENT_LOG_LEVEL: 'warn',
    }
    const log = openSync(this.#logFile, 'a')
    const options = { cwd: root, stdio: ['ignore', log, log] as ['ignore', number, number] }
    const program = join(root, 'apps/agent/src/main.ts')
    this.#agent = spawn(process.execPath, [program], { ...options, env: { PATH: process.env.PATH, ...env } })
    closeSync(log)
    endWithUs(identify(this.#agent.pid!)!, 'SIGTERM')
    this.#agent.on('exit', (code, signal) => {
      this.#ended = `${code ?? signal}`
    })
    const linked = async () =>
      (await admin.listHosts()).hosts.some((host) => host.name === name && host.linked && host.images.length > 0)
    for (const ends = Date.now() + linkedMs; !(await linked()); await sleep(50)) {
      if (this.#ended || Date.now() > ends) throw new Error(`the agent was not linked: ${this.#lastWords()}`)
    }
  }

  get #logFile(): string {
    return join(this.#folder, 'agent.log')
  }

  #lastWords(): string {
    return readFileSync(this.#logFile, 'utf8').slice(-2_000)
  }

  async #endAgent(): Promise<void> {
    if (!this.#agent || this.#ended) return
    const exited = once(this.#agent, 'exit')
    this.#agent.kill('SIGTERM')
    await exited
  }

  #actorOf(uuid: string): Actor {
    const actor = this.#actors.get(uuid) ?? new Actor()
    this.#actors.set(uuid, actor)
    return actor
  }

  async #makeDesk(image: string): Promise<Desk> {
    const { url, key } = this.#target
    const client = createClient({ baseUrl: url, apiKey: key })
    const { id } = await client.createDesktop({ tier: 'small', image_version: image })
    await client.wakeDesktop(id, {}, { wait: true })
    const ask: Desk['ask'] = (method, path, body) => send(method, `${url}/v1/desktops/${id}${path}`, key, body)
    return { id, actor: this.#actorOf(id), ask }
  }

  /** Its guest is fair now: a command is answered. */
  async #works(desk: Desk): Promise<string[]> {
    for (const ends = Date.now() + linkedMs; ; await sleep(200)) {
      const { status, text } = await desk.ask('POST', '/exec', '{"command":"true","timeout_secs":20}')
      if (status === 200) return []
      if (Date.now() > ends) return [`desktop ${desk.id} is of no use any more: ${status} ${text}`]
    }
  }
}

/** An answer that does not come, or is cut off, is told as one of status 0. */
async function send(method: string, url: string, key: string, body?: string | Buffer): Promise<Answer> {
  const type = typeof body === 'string' ? { 'content-type': 'application/json' } : {}
  const headers = { authorization: `Bearer ${key}`, ...type }
  const signal = AbortSignal.timeout(askMs)
  try {
    const answer = await fetch(url, { method, headers, signal, ...(body !== undefined && { body }) })
    return { status: answer.status, text: (await answer.text()).slice(0, 2_000) }
  } catch (error) {
    return { status: 0, text: String((error as Error).cause ?? error) }
  }
}

function memoryMiB(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  return Math.round(Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1_024)
}
