// One control plane of a stack, in this process, with its failpoints; can be stopped and started again at its address.
import { type Config, configSchema } from '@dormouse/control-plane/config.ts'
import { type ControlPlane, startControlPlane } from '@dormouse/control-plane/context.ts'
import { ArmedFailpoints, type Log, readConfig } from '@dormouse/process'
import { sharesDocument } from '../../openapi.ts'
import { waitFor } from '../../wait-for.ts'

/** Short times if a test waits for their end; long ones if an overloaded machine must not miss them. */
const quick = {
  heartbeatMs: 200,
  leadershipLeaseMs: 30_000,
  destroyGraceMs: 300,
  wakeDeadlineMs: 40_000,
  hibernateDeadlineMs: 40_000,
  destroyDeadlineMs: 40_000,
  databasePool: 8,
  rateLimitPerSecond: 100_000,
  rateLimitStrangersPerSecond: 100_000,
  port: 0,
} satisfies Partial<Config>

export class Replica {
  readonly failpoints: ArmedFailpoints
  readonly #config: Config
  readonly #log: Log
  #parts: ControlPlane | undefined
  #port = 0

  constructor(databaseUrl: string, log: Log, wish: Partial<Config> = {}, failpoints = new ArmedFailpoints()) {
    this.#config = { ...readConfig(configSchema, { DATABASE_URL: databaseUrl }), ...quick, ...wish }
    this.#log = log
    this.failpoints = failpoints
  }

  get parts(): ControlPlane {
    if (!this.#parts) throw new Error('this control plane is stopped')
    return this.#parts
  }

  get up(): boolean {
    return this.#parts !== undefined
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`
  }

  get leads(): boolean {
    return this.#parts?.leadership.term !== undefined
  }

  /** The wish holds until it is stopped. */
  async start(wish: Partial<Config> = {}): Promise<void> {
    const port = this.#port || this.#config.port
    this.#parts = await startControlPlane({ ...this.#config, ...wish, port }, this.#log, this.failpoints)
    // A public URL has the port of a proxy.
    this.#port = port || Number(new URL(this.#parts.url).port)
    sharesDocument(this.url, { ...this.#config, ...wish, port: 0, databaseUrl: '' })
  }

  async leading(): Promise<void> {
    await waitFor('leadership', () => this.leads)
  }

  /** Stops while an operation is held at a failpoint; releases it when this replica no longer leads. */
  async stopAt(release: () => void): Promise<void> {
    const { leadership } = this.parts
    const stopped = this.stop()
    await waitFor('the end of the term', () => leadership.term === undefined)
    release()
    await stopped
  }

  async stop(): Promise<void> {
    const parts = this.#parts
    this.#parts = undefined
    await parts?.close()
  }
}
