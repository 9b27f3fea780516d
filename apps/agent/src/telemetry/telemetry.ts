// The agent's metrics, and the fields of its log lines. The parts get only the observers in it; no other module knows the
// format of metrics.
import { Refusal, type Report, type ReportName } from '@dormouse/contract'
import { currentSpan, type Log, onAlarm, type Tracing, traced, withLogFields } from '@dormouse/process'
import { processMetrics } from '@dormouse/process/metrics'
import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import type { CommandCall, CommandObserver } from '../commands/handler.ts'
import type { CallObserver } from '../driver/libvirt/settings.ts'
import { PhaseClock } from './phases.ts'

const secondsBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 180]

export class Telemetry {
  readonly #log: Log
  readonly #tracing: Tracing | undefined
  readonly #registry = new Registry()
  readonly #commands: Histogram<'command' | 'outcome'>
  readonly #inProgress: Gauge<'command'>
  readonly #hypervisorCalls: Histogram<'procedure' | 'outcome'>
  readonly #phases: PhaseClock
  readonly #stopAlarms: () => void

  constructor(log: Log, tracing: Tracing | undefined) {
    this.#tracing = tracing
    this.#log = log.child({ module: 'commands' })
    const registers = [this.#registry]
    this.#commands = new Histogram({
      name: 'dormouse_agent_command_duration_seconds',
      help: 'Commands of the control plane, by outcome: succeeded, the code of a refusal, or failed',
      labelNames: ['command', 'outcome'],
      buckets: secondsBuckets,
      registers,
    })
    this.#inProgress = new Gauge({
      name: 'dormouse_agent_commands_in_progress',
      help: 'Commands of the control plane that run now',
      labelNames: ['command'],
      registers,
    })
    this.#hypervisorCalls = new Histogram({
      name: 'dormouse_agent_libvirt_call_duration_seconds',
      help: 'Calls to libvirt, with the wait for a free connection, by procedure',
      labelNames: ['procedure', 'outcome'],
      buckets: secondsBuckets,
      registers,
    })
    const phases = new Histogram({
      name: 'dormouse_agent_phase_duration_seconds',
      help: 'Phases of wakes and hibernations',
      labelNames: ['phase'],
      buckets: secondsBuckets,
      registers,
    })
    this.#phases = new PhaseClock((phase, ms) => phases.observe({ phase }, ms / 1_000))
    const alarms = new Counter({
      name: 'dormouse_alarms_total',
      help: 'Log lines with `alarm`: what an operator has to look at',
      labelNames: ['kind'],
      registers,
    })
    // From zero on, so that the first one is an increase.
    for (const kind of ['firewall', 'other']) alarms.inc({ kind }, 0)
    this.#stopAlarms = onAlarm(log, (kind) => alarms.inc({ kind }))
  }

  /** Wraps each command: measures it, logs it, and gives its lines the ids of its request and its operation. */
  readonly command: CommandObserver = (call, work) =>
    withLogFields({ request: call.requestId, operation: call.operationId }, () =>
      this.#command(call, () => traced(this.#tracing, spanOf(call), work)),
    )

  /** Wraps each call to libvirt. */
  readonly libvirtCall: CallObserver = async (procedure, work) => {
    const startedAt = performance.now()
    let outcome = 'failed'
    try {
      // What runs periodically belongs to no trace.
      const tracing = currentSpan() && this.#tracing
      const result = await traced(tracing, { name: `libvirt ${procedure}`, kind: 'client' }, work)
      outcome = 'succeeded'
      return result
    } finally {
      this.#hypervisorCalls.observe({ procedure, outcome }, (performance.now() - startedAt) / 1_000)
    }
  }

  /** Sees each report to the control plane. */
  report<N extends ReportName>(name: N, report: Report<N>): void {
    if (name !== 'operation.progress') return
    const { operationId, phase } = report as Report<'operation.progress'>
    this.#phases.note(operationId, phase)
  }

  /** Shows a number that is read whenever the metrics are. */
  show(name: string, help: string, count: () => number): void {
    new Gauge({
      name,
      help,
      registers: [this.#registry],
      collect() {
        this.set(count())
      },
    })
  }

  async #command<T>({ name, operationId, desktopId: desktop }: CommandCall, work: () => Promise<T>): Promise<T> {
    const startedAt = performance.now()
    let outcome = 'succeeded'
    this.#inProgress.inc({ command: name })
    try {
      return await work()
    } catch (error) {
      outcome = error instanceof Refusal ? error.code : 'failed'
      throw error
    } finally {
      const ms = performance.now() - startedAt
      this.#inProgress.dec({ command: name })
      this.#commands.observe({ command: name, outcome }, ms / 1_000)
      if (operationId) this.#phases.end(operationId)
      this.#log[operationId ? 'info' : 'debug']({ command: name, desktop, outcome, ms: Math.round(ms) }, 'command')
    }
  }

  /** All metrics, as Prometheus reads them. */
  text(): Promise<string> {
    return Registry.merge([processMetrics(), this.#registry]).metrics()
  }

  async close(): Promise<void> {
    this.#stopAlarms()
    await this.#tracing?.close()
  }
}

/** The agent's part of a trace. An earlier control plane sends no traceparent: then the trace begins here. */
function spanOf({ name, desktopId: desktop, operationId: operation, requestId: request, traceparent }: CommandCall) {
  const attributes = { desktop, operation, request }
  return { name, kind: 'server', parent: traceparent ?? null, traceId: request, attributes } as const
}
