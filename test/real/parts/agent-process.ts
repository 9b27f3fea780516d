// An agent in a process of its own, over the folders of one in this process, which is down meanwhile.
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { CommandName, CommandPayload, CommandResult, GuestCallResult } from '@dormouse/contract'
import { Refusal, type RefusalCode } from '@dormouse/contract'
import { insideNetwork } from '../../../scripts/testbed/private-host.ts'
import type { ChildOptions, Command, Outcome } from './agent-child.ts'
import type { Asked } from './two-hosts.ts'

interface AgentOptions extends ChildOptions {
  /** A process in whose network it runs. */
  networkOf?: number
  /** What starts it: words before those of its program. */
  startedBy?: string[]
}

const program = fileURLToPath(new URL('agent-child.ts', import.meta.url))

export class AgentProcess implements Asked {
  readonly folder: string
  #options: AgentOptions
  readonly #waiting = new Map<number, PromiseWithResolvers<unknown>>()
  #child: ChildProcess | undefined
  #last = 0

  constructor(options: AgentOptions) {
    this.folder = options.folder
    this.#options = options
  }

  async start(): Promise<void> {
    const { networkOf, startedBy = [], ...options } = this.#options
    const inside = networkOf ? insideNetwork(networkOf) : []
    const [execPath, ...execArgv] = [...inside, ...startedBy, process.execPath]
    const stdio = ['ignore', 'inherit', 'inherit', 'ipc'] as const
    const child = fork(program, [JSON.stringify(options)], { execPath: execPath!, execArgv, stdio: [...stdio] })
    this.#child = child
    child.on('message', (outcome: Outcome) => {
      const waiting = this.#waiting.get(outcome.number)
      if ('result' in outcome) waiting?.resolve(outcome.result)
      else waiting?.reject(new Refusal(outcome.code as RefusalCode, outcome.detail))
    })
    child.on('exit', () => {
      for (const { reject } of this.#waiting.values()) reject(new Refusal('host_unreachable', 'the agent ended'))
      this.#waiting.clear()
    })
    await this.#answer(0)
  }

  /** It is killed, and starts again with another pace. */
  async pace(mibPerSec: number): Promise<void> {
    await this.kill()
    this.#options = { ...this.#options, mibPerSec }
    await this.start()
  }

  /** Starts it if it does not run. */
  async ensureUp(): Promise<void> {
    if (this.runs) this.freeze(false)
    else await this.start()
  }

  get pid(): number {
    return this.#child!.pid!
  }

  get runs(): boolean {
    return this.#child?.exitCode === null && this.#child.signalCode === null
  }

  /** It runs no further, or runs on. */
  freeze(frozen: boolean): void {
    this.#child!.kill(frozen ? 'SIGSTOP' : 'SIGCONT')
  }

  /** With no chance to do anything. What it was asked fails as a lost host does. */
  async kill(): Promise<void> {
    if (!this.runs) throw new Error('the agent has ended by itself')
    const exited = once(this.#child!, 'exit')
    this.#child!.kill('SIGKILL')
    await exited
  }

  ask<N extends CommandName>(name: N, payload: CommandPayload<N>): Promise<CommandResult<N>> {
    return this.#send({ name, payload }) as Promise<CommandResult<N>>
  }

  /** How much of the desktop's move has passed. */
  carriedBytes(desktopId: string): Promise<number> {
    return this.#send({ name: 'carried', payload: desktopId }) as Promise<number>
  }

  /** A command in the guest that must succeed; its stdout without the last newline. */
  async run(desktopId: string, command: string, timeoutSecs = 60): Promise<string> {
    const body = { command, timeout_secs: timeoutSecs }
    const request = { desktopId, generation: 1, call: 'exec' as const, body, timeoutSecs }
    const result = (await this.ask('guest.call', request)) as GuestCallResult<'exec'>
    if (result.exit_code !== 0) throw new Error(`${command.slice(0, 80)}: ${JSON.stringify(result)}`)
    return result.stdout.trimEnd()
  }

  async #send(command: Omit<Command, 'number'>): Promise<unknown> {
    const number = ++this.#last
    const answer = this.#answer(number)
    this.#child!.send({ number, ...command })
    return answer
  }

  #answer(number: number): Promise<unknown> {
    const waiting = Promise.withResolvers<unknown>()
    this.#waiting.set(number, waiting)
    return waiting.promise.finally(() => this.#waiting.delete(number))
  }
}
