// The metrics and the lines of operations and requests. Made before the modules, which get only the observers in it, and then
// shown what they hold. Only one other module makes metrics of its own: webhooks.
import { type Log, onAlarm, type Tracing } from '@dormouse/process'
import { processMetrics } from '@dormouse/process/metrics'
import { Counter, Registry } from 'prom-client'
import type { CommandObserver } from '../agents/links.ts'
import { certificateMetrics } from './certificates.ts'
import { observeCommands } from './commands.ts'
import { databaseMetrics } from './database.ts'
import { type FleetOptions, fleetMetrics } from './fleet.ts'
import { type Gauged, type Held, showGauges, showHeld, showLeadership } from './gauges.ts'
import { OperationTelemetry } from './operations.ts'
import type { Refreshed } from './refreshed.ts'

const alarmKinds = [
  'ledger',
  'implausible_facts',
  'unexpected_state',
  'inventory',
  'epoch',
  'mass_action',
  'quarantine',
  'webhooks',
  'events',
  'paused',
  'other',
]

export class Telemetry {
  readonly registry = new Registry()
  readonly operations: OperationTelemetry
  readonly commands: CommandObserver
  readonly tracing: Tracing | undefined
  readonly #logOf: (module: string) => Log
  readonly #stopAlarms: () => void
  #refreshed: Refreshed[] = []

  constructor(log: Log, logOf: (module: string) => Log, tracing: Tracing | undefined) {
    this.#logOf = logOf
    this.tracing = tracing
    this.commands = observeCommands(this.registry, tracing)
    this.operations = new OperationTelemetry({ registry: this.registry, log: logOf('operations'), tracing })
    const alarms = new Counter({
      name: 'dormouse_alarms_total',
      help: 'Log lines with `alarm`: what an operator has to look at',
      labelNames: ['kind'],
      registers: [this.registry],
    })
    // From zero on, so that the first one is an increase.
    for (const kind of alarmKinds) alarms.inc({ kind }, 0)
    this.#stopAlarms = onAlarm(log, (kind) => alarms.inc({ kind }))
  }

  /** Shows what the modules hold whenever the metrics are read. */
  watch(
    modules: Held & {
      hosts: { list: FleetOptions['list'] }
      wings: { gauges: Gauged[] }
    },
    config: { publicUrl?: string | undefined; pageUrl?: string | undefined },
  ): void {
    showHeld(this.registry, modules)
    showLeadership(this.registry, modules.leadership)
    showGauges(this.registry, modules.wings.gauges)
    const { registry } = this
    const { pool, hosts } = modules
    const log = this.#logOf('telemetry')
    this.#refreshed = [
      fleetMetrics({ registry, list: () => hosts.list(), log }),
      databaseMetrics(registry, pool, log),
      certificateMetrics({ registry, pool, urls: { public: config.publicUrl, page: config.pageUrl }, log }),
    ]
  }

  /** All metrics, as Prometheus reads them. */
  async text(): Promise<string> {
    await Promise.all(this.#refreshed.map((numbers) => numbers.refresh()))
    return Registry.merge([processMetrics(), this.registry]).metrics()
  }

  get contentType(): string {
    return this.registry.contentType
  }

  async close(): Promise<void> {
    this.#stopAlarms()
    await this.tracing?.close()
  }
}
