// The service that a fuzz run misuses: one that runs already, or one with a simulated host that is started for the run and
// watched. Knows no way to misuse it.
import { Instance } from '../real/parts/instance.ts'
import type { Target } from './mode.ts'

export class Service {
  readonly target: Target
  readonly #instance: Instance | undefined
  /** The process of its control plane, if that was started for the run. */
  readonly pid: number | undefined

  private constructor(target: Target, instance?: Instance) {
    this.target = target
    this.#instance = instance
    this.pid = instance?.process('control plane')?.pid
  }

  /** The one at that target; without one, a new one, with these settings. */
  static async at(
    target: Target | undefined,
    say: (line: string) => void,
    env: Record<string, string> = {},
  ): Promise<Service> {
    if (target) return new Service(target)
    say('Starting a service with a simulated host…')
    const instance = await Instance.start(env, ['--no-tour', '--simulated', '1'])
    const { base_url: url, api_key: key, operator_key: operatorKey } = instance.local
    return new Service({ url, key, operatorKey }, instance)
  }

  /** In a sentence, whether its control plane has crashed since; the starter puts another in its place. */
  verdict(): string[] {
    if (!this.#instance || this.#instance.process('control plane')?.pid === this.pid) return []
    return ['the control plane is another process than before: it crashed']
  }

  /**
   * What it has logged as an error of its own, if it was started for the run. Alarms are meant for an operator, and what a host
   * refused or failed at is the host's error.
   */
  errors(): string[] {
    const lines = (this.#instance?.logs ?? '').split('\n').filter((line) => line.startsWith('{"level":50'))
    const faults = lines.filter((line) => !/"alarm":true|"type":"(Refusal|CallFailed)"/.test(line))
    return faults.slice(0, 5).map((line) => `logged as an error: ${line.slice(0, 600)}`)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#instance?.[Symbol.asyncDispose]()
  }
}
