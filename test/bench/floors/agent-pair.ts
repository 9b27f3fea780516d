// The agents of two hosts, each in a process of its own, as on two machines. Those in this process are down meanwhile.
import { AgentProcess } from '../../real/parts/agent-process.ts'
import type { TwoHosts } from '../../real/parts/two-hosts.ts'

export class AgentPair implements AsyncDisposable {
  readonly home: AgentProcess
  readonly away: AgentProcess
  readonly #hosts: TwoHosts

  private constructor(hosts: TwoHosts) {
    const processOf = (at: 0 | 1) => {
      const { folder, installationId } = at === 0 ? hosts.home : hosts.away
      return new AgentProcess({ folder, installationId, socketPath: hosts.stages[at].libvirtd.socketPath })
    }
    this.#hosts = hosts
    this.home = processOf(0)
    this.away = processOf(1)
  }

  static async of(hosts: TwoHosts): Promise<AgentPair> {
    const pair = new AgentPair(hosts)
    await Promise.all([hosts.home.down(), hosts.away.down()])
    await Promise.all([pair.home.start(), pair.away.start()])
    return pair
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.home.kill(), this.away.kill()])
    await Promise.all([this.#hosts.home.up(), this.#hosts.away.up()])
  }
}
