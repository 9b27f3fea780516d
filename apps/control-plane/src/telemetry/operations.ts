// Watches operations: their metrics, one log line each, and the request id in every line of theirs. Knows no desktop.
import { currentSpan, type Log, type Tracing, traced, withLogFields } from '@dormouse/process'
import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import { z } from 'zod'
import type { EngineObserver, StepAttempt } from '../operations/observer.ts'
import type { OperationRow } from '../operations/store.ts'

interface Times {
  /** By the monotonic clock, as is the other. */
  acceptedAt: number
  /** Undefined while it waits. */
  startedAt: number | undefined
  /** The span of the request that it was accepted for; null after a change of leader. */
  parent: string | null
}

export interface OperationTelemetryOptions {
  registry: Registry
  log: Log
  tracing: Tracing | undefined
}

const secondsBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 180, 600]

export class OperationTelemetry implements EngineObserver {
  readonly #log: Log
  readonly #tracing: Tracing | undefined
  readonly #times = new Map<string, Times>()
  readonly #accepted: Counter<'kind'>
  readonly #durations: Histogram<'kind' | 'state'>
  readonly #waits: Histogram<'kind'>
  readonly #failures: Counter<'kind' | 'code'>
  readonly #steps: Histogram<'kind' | 'step' | 'way' | 'outcome'>

  constructor({ registry, log, tracing }: OperationTelemetryOptions) {
    this.#log = log
    this.#tracing = tracing
    const registers = [registry]
    this.#accepted = new Counter({
      name: 'dormouse_operations_accepted_total',
      help: 'Operations that this replica accepted, or took over from another',
      labelNames: ['kind'],
      registers,
    })
    this.#durations = new Histogram({
      name: 'dormouse_operation_duration_seconds',
      help: 'From the acceptance of an operation until it settled, by its outcome',
      labelNames: ['kind', 'state'],
      buckets: secondsBuckets,
      registers,
    })
    this.#waits = new Histogram({
      name: 'dormouse_operation_wait_seconds',
      help: 'From the acceptance of an operation until it ran',
      labelNames: ['kind'],
      buckets: secondsBuckets,
      registers,
    })
    this.#failures = new Counter({
      name: 'dormouse_operation_failures_total',
      help: 'Operations that failed, by the code of the failure',
      labelNames: ['kind', 'code'],
      registers,
    })
    this.#steps = new Histogram({
      name: 'dormouse_operation_step_duration_seconds',
      help: 'One attempt of a step of an operation, or of its undo',
      labelNames: ['kind', 'step', 'way', 'outcome'],
      buckets: secondsBuckets,
      registers,
    })
    this.#gauges(registers)
  }

  accepted({ id, kind, ageMs }: OperationRow): void {
    this.#accepted.inc({ kind })
    const parent = currentSpan()?.traceparent ?? null
    this.#times.set(id, { acceptedAt: performance.now() - ageMs, startedAt: undefined, parent })
  }

  async run(operation: OperationRow, work: () => Promise<void>): Promise<void> {
    const { id, kind, requestId, desktopId, orgId } = operation
    const times = this.#times.get(id)
    if (times) {
      times.startedAt = performance.now()
      this.#waits.observe({ kind }, (times.startedAt - times.acceptedAt) / 1_000)
    }
    const request = requestId ?? undefined
    const attributes = { operation: id, request, desktop: desktopId, org: orgId }
    // A leader that takes over continues the trace of the request.
    const span = { name: `operation ${kind}`, kind: 'internal', traceId: request, attributes } as const
    await withLogFields({ request, operation: id }, () =>
      traced(this.#tracing, { ...span, parent: times?.parent ?? null }, work),
    )
  }

  left({ id }: OperationRow): void {
    this.#times.delete(id)
  }

  async attempt<T>({ operation: { kind }, step, way }: StepAttempt, work: () => Promise<T>): Promise<T> {
    const startedAt = performance.now()
    let outcome = 'failed'
    try {
      const span = { name: `step ${kind}.${step}${way === 'undo' ? ' undo' : ''}`, kind: 'internal' } as const
      const result = await traced(this.#tracing, span, work)
      outcome = 'succeeded'
      return result
    } finally {
      this.#steps.observe({ kind, step, way, outcome }, (performance.now() - startedAt) / 1_000)
    }
  }

  settled(operation: OperationRow): void {
    const { id, kind, state, errorCode, ageMs } = operation
    const times = this.#times.get(id)
    const now = performance.now()
    const acceptedAt = times?.acceptedAt ?? now - ageMs
    this.#durations.observe({ kind, state }, (now - acceptedAt) / 1_000)
    if (errorCode) this.#failures.inc({ kind, code: errorCode })
    this.#log.info(lineOf(operation, acceptedAt, times?.startedAt, now), 'operation settled')
  }

  /** How many wait, and since when the oldest does. */
  #waiting(): { count: number; oldestSecs: number } {
    const waiting = [...this.#times.values()].filter(({ startedAt }) => startedAt === undefined)
    const oldest = Math.min(...waiting.map(({ acceptedAt }) => acceptedAt))
    return { count: waiting.length, oldestSecs: waiting.length > 0 ? (performance.now() - oldest) / 1_000 : 0 }
  }

  #gauges(registers: Registry[]): void {
    const times = this.#times
    const waiting = () => this.#waiting()
    new Gauge({
      name: 'dormouse_operations_in_progress',
      help: 'Operations that this replica runs now',
      registers,
      collect() {
        this.set(times.size - waiting().count)
      },
    })
    new Gauge({
      name: 'dormouse_operations_waiting',
      help: 'Accepted operations that wait to run on this replica',
      registers,
      collect() {
        this.set(waiting().count)
      },
    })
    new Gauge({
      name: 'dormouse_operations_oldest_waiting_seconds',
      help: 'How long the oldest of the waiting operations has waited',
      registers,
      collect() {
        this.set(waiting().oldestSecs)
      },
    })
  }
}

/** What an operator looks for first. */
function lineOf(operation: OperationRow, acceptedAt: number, startedAt: number | undefined, now: number): object {
  const { id, kind, desktopId: desktop, orgId: org, requestId: request, state, errorCode: code, cause } = operation
  return {
    operation: id,
    kind,
    desktop,
    org,
    host: hostOf(operation),
    state,
    ...(code && { code, cause }),
    waitedMs: Math.round((startedAt ?? now) - acceptedAt),
    ranMs: startedAt === undefined ? 0 : Math.round(now - startedAt),
    request,
  }
}

/** The host that did the work, as far as one is known. */
const hostOf = ({ findings, input }: OperationRow): string | undefined =>
  located.parse(findings).hostId ?? located.parse(input).hostId ?? undefined

const located = z.object({ hostId: z.string().nullish() })
