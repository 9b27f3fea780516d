// A simulated guest: its agent, and a connection into its namespaces. Its clock is a number, since namespaces share the machine's.
import { type DesktopId, Refusal, refuse } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import type { GuestChannel, GuestConnection } from '../guest-connection.ts'
import type { GuestAgent, ProgramEnd } from '../guest-transport.ts'
import type { GuestContainers } from './containers.ts'
import type { SimulatedFaults } from './faults.ts'
import type { JsonFolder, SimulatedDomain } from './store.ts'

export interface GuestMachine {
  domains: JsonFolder<SimulatedDomain>
  containers: GuestContainers
  faults: SimulatedFaults
}

/** What a guest gets before anything else runs in it. */
export interface SimulatedAccess {
  bringIn: (agent: Pick<GuestAgent, 'run'>) => Promise<unknown>
  log: Pick<Log, 'error'>
}

const silenceMs = 50

export class SimulatedGuest implements GuestAgent, GuestConnection {
  readonly #machine: GuestMachine
  readonly #desktopId: DesktopId
  readonly #access: SimulatedAccess

  constructor(machine: GuestMachine, desktopId: DesktopId, access: SimulatedAccess) {
    this.#machine = machine
    this.#desktopId = desktopId
    this.#access = access
  }

  async ping(): Promise<void> {
    await this.#machine.faults.enter('ping')
    this.#running()
    if (!this.#machine.faults.silent(this.#desktopId)) return
    await new Promise((resolve) => setTimeout(resolve, silenceMs))
    refuse('guest_unavailable', 'the guest does not answer')
  }

  async setTime(): Promise<void> {
    await this.ping()
    await this.#machine.faults.enter('setTime')
    this.#remember({ clockOffsetMs: 0 })
  }

  /** Its memory was restored. It has random numbers of its own always. */
  async resumed(): Promise<void> {
    await this.ping()
    await this.#machine.faults.enter('tell')
    this.#remember({ clockOffsetMs: 0 })
  }

  /** Requests its address, if it has a port on the network. */
  requestAddress(): boolean {
    const { nic } = this.#running()
    if (nic) this.#remember({ hasAddress: true })
    return nic
  }

  /** As root. The end of the domain ends it. */
  async run(script: string, _timeoutSecs?: number, input?: Buffer): Promise<ProgramEnd> {
    await this.connect()
    return this.#run(script, input)
  }

  async #run(script: string, input?: Buffer): Promise<ProgramEnd> {
    const { exitCode, stdout } = await this.#machine.containers.run(this.#desktopId, script, input)
    return { exitCode, stdout, signal: undefined, stderr: Buffer.alloc(0) }
  }

  get isConnected(): boolean {
    return this.isReady
  }

  get isReady(): boolean {
    const domain = this.#machine.domains.read(this.#desktopId)
    return domain?.state === 'running' && !domain.idles && this.#machine.containers.has(this.#desktopId)
  }

  async connect(): Promise<void> {
    const { bootId } = this.#running().memory
    const { containers } = this.#machine
    await containers.make(this.#desktopId, bootId, () => this.#bringIn())
    this.#running()
  }

  async meet(): Promise<void> {
    await this.connect()
    await this.#bringIn()
  }

  #bringIn(): Promise<unknown> {
    return this.#access.bringIn({ run: (script, _timeoutSecs, input) => this.#run(script, input) })
  }

  probe(): void {}

  async openChannel<T>(script: string, wrap: (channel: GuestChannel) => T): Promise<T> {
    this.#running()
    return wrap(this.#machine.containers.enter(this.#desktopId, script))
  }

  inBackground(work: Promise<unknown>): void {
    work.catch((err: unknown) => {
      if (!(err instanceof Refusal))
        this.#access.log.error({ err, desktopId: this.#desktopId }, 'background work in a guest failed')
    })
  }

  async sendCapacity(): Promise<void> {}

  #remember(news: Partial<SimulatedDomain['memory']>): void {
    const domain = this.#running()
    this.#machine.domains.write(this.#desktopId, { ...domain, memory: { ...domain.memory, ...news } })
  }

  #running(): SimulatedDomain {
    const domain = this.#machine.domains.read(this.#desktopId)
    return domain?.state === 'running' && !domain.idles ? domain : refuse('guest_unavailable', 'the guest does not run')
  }
}
