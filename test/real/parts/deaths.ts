// Kills a part of a real host with SIGKILL at a moment of its agent's work: the agent itself, libvirtd, a QEMU, or all of them. The agent that dies is a process of its own over the folder of one in this process.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { LibvirtDriver } from '@dormouse/agent/driver/libvirt/libvirt.ts'
import { type Bench, until } from '@dormouse/agent/testing/bench.ts'
import { Refusal } from '@dormouse/contract'
import { waitFor } from '../../wait-for.ts'
import type { ChildOptions } from './agent-child.ts'
import { AgentProcess } from './agent-process.ts'
import type { Stage } from './agent-stage.ts'
import type { Asked } from './two-hosts.ts'

export const victims = ['the agent', 'libvirtd', 'QEMU', 'all three'] as const
export type Victim = (typeof victims)[number]

/** An emulated guest boots first. */
const reachedMs = 120_000

export interface Strike {
  victim: Victim
  /** A failpoint of the agent's, or another moment of the work; by default its end. */
  at?: string | (() => boolean)
  /** The domain whose QEMU is killed, as the end of its name; by default any. */
  domain?: RegExp
}

/** What it was asked for, unless that failed; and the code of that failure. */
export interface Struck<T> {
  result?: T
  code?: string
}

export class Deaths {
  readonly #stage: Stage
  readonly #bench: Bench<LibvirtDriver>
  readonly #options: Partial<ChildOptions>

  /** The options are those with which the bench was made. */
  constructor(stage: Stage, bench: Bench<LibvirtDriver>, options: Partial<ChildOptions>) {
    this.#stage = stage
    this.#bench = bench
    this.#options = options
  }

  /** Everything runs again when this returns, and the agent has begun to look at what is left. */
  async during<T>(strike: Strike, work: (agent: Asked) => Promise<T>): Promise<Struck<T>> {
    const { victim, at, domain = /./ } = strike
    if (victim === 'the agent' || victim === 'all three') return this.#withAgent(strike, work)
    const { failpoints } = this.#bench
    const kill = () => (victim === 'QEMU' ? this.killQemu(domain) : this.#stage.libvirtd.killDaemon('SIGKILL'))
    const struck = Promise.withResolvers<void>()
    if (typeof at === 'string') {
      failpoints.set(at, async () => {
        failpoints.set(at, undefined)
        await kill().then(struck.resolve, struck.reject)
      })
    }
    const outcome = outcomeOf(work(this.#bench))
    const missed = () => Promise.reject(new Error(`the work ended before ${at}`))
    if (typeof at === 'string') await Promise.race([struck.promise, outcome.then(missed)])
    else await (at ? until(at) : outcome).then(kill)
    await outcome
    if (victim === 'libvirtd') await this.#restartLibvirtd()
    return outcome
  }

  /** The agent's process dies, and libvirtd and QEMU right after it; then this process takes over. */
  async #withAgent<T>({ victim, at, domain = /./ }: Strike, work: (agent: Asked) => Promise<T>): Promise<Struck<T>> {
    const { folder, installationId } = this.#bench
    const { libvirtd } = this.#stage
    await this.#bench.down()
    const failpoints = typeof at === 'string' ? { [at]: 'kill' } : {}
    const { socketPath } = libvirtd
    const agent = new AgentProcess({ folder, installationId, socketPath, ...this.#options, failpoints })
    await agent.start()
    const outcome = outcomeOf(work(agent))
    if (typeof at === 'string') await waitFor(`the agent to die at ${at}`, () => !agent.runs, reachedMs)
    else await (at ? until(at) : outcome).then(() => agent.kill())
    if (victim === 'all three') {
      await libvirtd.killDaemon('SIGKILL')
      await this.killQemu(domain)
      await libvirtd.restartDaemon()
    }
    await this.#bench.up()
    return outcome
  }

  async #restartLibvirtd(): Promise<void> {
    await this.#stage.libvirtd.restartDaemon()
    await until(() => this.#bench.driver.domains().catch(() => undefined))
  }

  /** Those of this name. */
  async killQemu(domain: RegExp): Promise<void> {
    const pids = this.#qemus(domain)
    if (pids.length > 0) await this.#stage.libvirtd.exec('/bin/kill', '-9', ...pids)
    await until(() => this.#qemus(domain).length === 0)
  }

  /** The pids, in the host's namespace, of those that run. */
  #qemus(domain: RegExp): string[] {
    const root = `/proc/${this.#stage.libvirtd.pid}/root`
    const folder = join(root, 'run/libvirt/qemu')
    const files = readdirSync(folder).filter((file) => /^dormouse-.*\.pid$/.test(file) && domain.test(file))
    return files
      .map((file) => readFileSync(join(folder, file), 'utf8').trim())
      .filter((pid) => runs(join(root, 'proc', pid)))
  }
}

/** A zombie has ended. */
function runs(path: string): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(join(path, 'status'), 'utf8'))
  } catch {
    return false
  }
}

async function outcomeOf<T>(work: Promise<T>): Promise<Struck<T>> {
  try {
    return { result: await work }
  } catch (error) {
    if (error instanceof Refusal) return { code: error.code }
    throw error
  }
}
