// The agent over a hypervisor, the simulated one by default, without a control plane: commands as the link carries them, and
// a crash after which everything is created again over the same folders.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  type CommandName,
  type CommandPayload,
  type CommandResult,
  type DesktopSpec,
  type Fence,
  type GuestCallBody,
  type GuestCallName,
  type GuestCallResult,
  newId,
  type Report,
  type ReportName,
  type WakeSource,
} from '@dormouse/contract'
import { ArmedFailpoints, createLog } from '@dormouse/process'
import type { DialBack } from '../commands/handler.ts'
import { linkHandlers } from '../commands/table.ts'
import { SimulatedDriver } from '../driver/simulated/simulated.ts'
import type { AnyDriver } from '../make-driver.ts'
import { makeParts, type Parts, type PartsOptions } from '../parts.ts'

export const spec: DesktopSpec = { vcpus: 1, memoryMiB: 16, diskGiB: 1, imageVersion: 'mini' }

/** A fence as the control plane makes it; only generation and turn matter. */
export const fenceOf = (desktopId: string, generation: number, turn: number, more: Partial<Fence> = {}): Fence => ({
  desktopId,
  epoch: 1,
  generation,
  turn,
  // One operation per turn of a desktop.
  operationId: `${desktopId.slice(0, 24)}${String(turn).padStart(12, '0')}`,
  deadlineMs: 120_000,
  ...more,
})

const noDialBack: DialBack = () => Promise.reject(new Error('there is no control plane to dial back'))

interface BenchParts<D extends AnyDriver> extends Omit<Parts, 'driver'> {
  driver: D
  handlers: ReturnType<typeof linkHandlers>
}

type Said = { [N in ReportName]: { name: N; report: Report<N> } }[ReportName]

export interface BenchOptions<D extends AnyDriver> {
  /** Called again after each crash. */
  makeDriver: (folder: string) => D
  folder: string
  memoryFolder?: string
  installationId?: string
  /** How moves are accepted and sent; on a free port of this machine by default. */
  moves?: PartsOptions['moves']
  /** Keeps warm copies, as under a control plane that knows them. */
  warm?: PartsOptions['warm']
  /** Makes templates, in this much space. */
  templatesMiB?: number | undefined
}

/** Vaults are files in its folder `vaults`. */
export class Bench<D extends AnyDriver = SimulatedDriver> {
  readonly failpoints = new ArmedFailpoints()
  readonly said: Said[] = []
  readonly folder: string
  readonly memoryFolder: string
  readonly installationId: string
  readonly #makeDriver: (folder: string) => D
  moves: PartsOptions['moves']
  readonly #warm: PartsOptions['warm']
  templatesMiB: number | undefined
  /** Opens the channels that a command names. */
  dialBack = noDialBack
  #parts: BenchParts<D> | undefined
  #life = new AbortController()

  private constructor(options: BenchOptions<D>) {
    const { makeDriver, folder, memoryFolder, installationId = newId(), moves, warm, templatesMiB } = options
    this.folder = folder
    this.memoryFolder = memoryFolder ?? join(folder, 'memory')
    this.installationId = installationId
    this.#makeDriver = makeDriver
    this.#warm = warm
    this.templatesMiB = templatesMiB
    this.moves = moves ?? { listen: { host: '127.0.0.1', port: 0 } }
  }

  static async start(
    options: Pick<BenchOptions<SimulatedDriver>, 'installationId' | 'moves' | 'warm' | 'templatesMiB'> = {},
  ): Promise<Bench> {
    const folder = await mkdtemp(join(tmpdir(), 'dormouse-agent-'))
    const makeDriver = () => new SimulatedDriver({ folder: join(folder, 'simulated') })
    return Bench.over({ ...options, folder, makeDriver })
  }

  /** Over another hypervisor. */
  static async over<D extends AnyDriver>(options: BenchOptions<D>): Promise<Bench<D>> {
    const bench = new Bench(options)
    await bench.up()
    return bench
  }

  get parts(): BenchParts<D> {
    if (!this.#parts) throw new Error('the bench is down')
    return this.#parts
  }

  get driver(): D {
    return this.parts.driver
  }

  async up(): Promise<void> {
    const { installationId } = this
    const driver = this.#makeDriver(this.folder)
    const life = new AbortController()
    this.#life = life
    const failpoints = {
      hit: async (name: string) => {
        life.signal.throwIfAborted()
        await this.failpoints.hit(name)
        life.signal.throwIfAborted()
      },
    }
    const log = createLog({ name: 'bench', level: 'silent' })
    const parts = await makeParts({
      installationId,
      driver,
      folders: {
        state: this.folder,
        memory: this.memoryFolder,
        guestKeys: join(this.folder, 'guest-keys'),
        upgrades: join(this.folder, 'upgrades'),
        templates: join(this.folder, 'templates'),
      },
      workAtOnce: 4,
      thresholds: { cpuPercent: 25, networkKibps: 32 },
      ...(this.moves && { moves: this.moves }),
      warm: this.#warm,
      templatesMiB: this.templatesMiB,
      copies: { vaultsDir: join(this.folder, 'vaults'), cacheDir: join(this.folder, 'vault-cache') },
      failpoints,
      report: (name, report) => this.said.push({ name, report } as Said),
      log,
      guestLog: log,
    })
    await parts.templates.check()
    this.#parts = {
      ...parts,
      driver,
      handlers: linkHandlers(
        { ...parts, hostKey: { renew: () => Promise.reject(new Error('no host')) } },
        {
          dialBack: (token, signal) => this.dialBack(token, signal),
          observe: (_call, work) => work(),
        },
      ),
    }
  }

  /** The agent dies and starts again; its guests run on. What was in flight never finishes. */
  async crash(): Promise<void> {
    await this.down()
    await this.up()
  }

  /** The agent dies; another process can have its folder. */
  async down(): Promise<void> {
    this.#life.abort(new Error('the agent died'))
    this.parts.moves.close()
    this.parts.listener.close()
    this.parts.guests.close()
    await this.driver.close()
    void this.parts.templates.close()
    await this.parts.digests.close()
    await this.parts.journal.close()
    this.#parts = undefined
  }

  /** Starts the work, and crashes the agent when it reaches the failpoint. */
  async crashAt(name: string, work: () => Promise<unknown>): Promise<void> {
    const { promise: reached, resolve } = Promise.withResolvers<void>()
    this.failpoints.set(name, () => {
      resolve()
      return new Promise(() => undefined)
    })
    const ended = work().then(() => Promise.reject(new Error(`the work ended before ${name}`)))
    await Promise.race([reached, ended])
    this.failpoints.set(name, undefined)
    await this.crash()
  }

  ask<N extends CommandName>(name: N, payload: CommandPayload<N>, signal = new AbortController().signal) {
    return this.parts.handlers[name](payload, { signal }) as Promise<CommandResult<N>>
  }

  awake(fence: Fence, memory: WakeSource['memory'] = 'allow', disk: WakeSource['disk'] = 'make', of = spec) {
    return this.ask('desktop.ensureAwake', { fence, spec: of, source: { memory, disk } })
  }

  hibernated(fence: Fence) {
    return this.ask('desktop.ensureHibernated', { fence })
  }

  asleep(fence: Fence) {
    return this.ask('desktop.ensureAsleep', { fence })
  }

  destroyed(fence: Fence) {
    return this.ask('desktop.ensureDestroyed', { fence })
  }

  tidy(fence: Fence) {
    return this.ask('desktop.tidy', { fence })
  }

  async call<N extends GuestCallName>(
    target: { desktopId: string; generation: number },
    call: N,
    body: GuestCallBody<N>,
  ): Promise<GuestCallResult<N>> {
    const timeoutSecs = 60
    return (await this.ask('guest.call', { ...target, call, body, timeoutSecs })) as GuestCallResult<N>
  }

  /** A command in the guest, in the generation the journal has; its stdout without the last newline. */
  async run(desktopId: string, command: string, timeoutSecs = 60): Promise<string> {
    const generation = this.parts.journal.read(desktopId)?.generation ?? 0
    return (await this.call({ desktopId, generation }, 'exec', { command, timeout_secs: timeoutSecs })).stdout.trimEnd()
  }

  /** Seconds between the clocks of a simulated guest and of its host. */
  clockError(desktopId: string): number {
    const { driver } = this.parts
    if (driver.kind !== 'simulated') throw new Error('only a simulated guest has its clock in its driver')
    return Math.abs(driver.clockOffsetMs(desktopId)) / 1_000
  }

  observe(desktopId: string) {
    return this.ask('desktop.observe', { desktopId })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.parts.moves.close()
    this.parts.listener.close()
    await this.parts.turns.settled()
    await this.parts.templates.close()
    await this.parts.digests.close()
    this.parts.guests.close()
    await this.driver.close()
    await this.parts.journal.close()
    await rm(this.folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 20 })
  }
}

/** Awaits a value: the first that is not undefined, false or null, within half a minute. */
export async function until<T>(what: () => T | Promise<T>, withinMs = 30_000): Promise<NonNullable<T>> {
  const started = performance.now()
  for (;;) {
    const value = await what()
    if (value) return value as NonNullable<T>
    if (performance.now() - started > withinMs) throw new Error('it did not come true in time')
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}
