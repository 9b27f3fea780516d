// A machine that is being installed, upgraded or cleared: its connection, its facts, and the notes of what was done.
import type { AdminClient, Client, HostJson } from '@dormouse/client'
import { CliError, exitCodes } from '../failures.ts'
import type { Terminal } from '../terminal.ts'
import { askAgent, type Check, isBlocked, judge } from './checks.ts'
import { type Facts, readFacts } from './facts.ts'
import type { Source } from './package.ts'
import { checksTable, type Report, type Step, shortened, stepLine } from './report.ts'
import { Root } from './root.ts'
import { Session, type SessionOptions } from './session.ts'
import type { Target } from './target.ts'

export type Show = ((text: string) => void) | undefined

/** What all commands of this module get. */
export interface Work {
  terminal: Terminal
  admin: AdminClient
  customerWith(apiKey: string): Client
  /** Where the agent's package comes from. */
  source: Source
  session: SessionOptions
  controlPlanes: readonly string[]
  allowHttp: boolean
  json: boolean
}

export class Machine implements Disposable {
  readonly target: Target
  readonly root: Root
  readonly facts: Facts
  readonly checks: Check[] = []
  readonly steps: Step[] = []
  readonly #work: Work
  readonly #began = performance.now()

  private constructor(work: Work, target: Target, root: Root, facts: Facts) {
    this.#work = work
    this.target = target
    this.root = root
    this.facts = facts
  }

  /** Connects and looks; changes nothing. */
  static async open(work: Work, target: Target): Promise<Machine> {
    const session = await Session.open(target, work.session, work.terminal)
    try {
      const root = await Root.of(session, work.terminal)
      return new Machine(work, target, root, await readFacts(root))
    } catch (error) {
      session[Symbol.dispose]()
      throw error
    }
  }

  /** Checks what has to hold before anything is changed. An agent that is there already is asked, too. */
  async check(hosts: readonly HostJson[], name: string | undefined, upgrade: boolean): Promise<void> {
    const { source, terminal, json } = this.#work
    const found = judge({ facts: this.facts, source, hosts, name, upgrade })
    if (!json) terminal.note(`${this.target.label}, as ${this.root.how}\n`)
    this.#judge(found)
    if (this.facts.agent.installed) await this.checkByAgent()
  }

  /** The agent's own checks. */
  async checkByAgent(): Promise<void> {
    const { terminal, controlPlanes, allowHttp } = this.#work
    const ask = () => askAgent(this.root, controlPlanes, allowHttp)
    this.#judge(await terminal.during(`Checking ${this.target.label}`, ask))
  }

  /** Prints the table. Rejects if a host could not work. */
  #judge(found: readonly Check[]): void {
    this.checks.push(...found)
    if (!this.#work.json) this.#work.terminal.note(checksTable(found))
    if (!isBlocked(found)) return
    const bad = found.filter(({ result }) => result === 'failed')
    throw new CliError(
      `${this.target.label} cannot become a working host: ${bad.map(({ name, detail }) => `${name}: ${detail}`).join('; ')}`,
      bad[0]!.remedy ?? 'see the table',
      exitCodes.failed,
      { code: 'checks_failed', report: this.report('blocked') },
    )
  }

  /** Runs one step with its progress, and prints how it ended. */
  async step<T>(
    name: string,
    work: (show: Show) => Promise<{ value: T; result: Step['result']; detail?: string | undefined }>,
  ): Promise<T> {
    const { terminal, json } = this.#work
    const { value, result, detail } = await terminal.during(`${this.target.label}: ${name}`, work)
    const step: Step = { name, result, ...(detail && { detail }) }
    this.steps.push(step)
    if (!json) terminal.note(stepLine(step))
    return value
  }

  /** Whether any step has changed the machine. */
  get hasChanged(): boolean {
    return this.steps.some(({ result }) => result === 'changed')
  }

  report(outcome: Report['outcome'], host?: HostJson): Report {
    return {
      target: this.target.label,
      host_id: host?.id ?? this.facts.agent.hostId ?? null,
      name: host?.name ?? null,
      outcome,
      checks: this.checks,
      steps: this.steps,
      duration_ms: Math.round(performance.now() - this.#began),
    }
  }

  [Symbol.dispose](): void {
    this.root.session[Symbol.dispose]()
  }
}

/** The outcome of a step that makes things so: what it changed, if anything. */
export function changes(names: readonly string[]): { result: Step['result']; detail?: string } {
  return names.length > 0 ? { result: 'changed', detail: shortened(names) } : { result: 'unchanged' }
}
