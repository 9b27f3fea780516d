// The wing of webhooks: what the rest of the control plane knows of it.
import type { Failpoints, Log } from '@dormouse/process'
import type { Registry } from 'prom-client'
import type { Db } from '../db/pool.ts'
import type { App } from '../http/app.ts'
import { observeAttempts, waitingGauges } from './metrics.ts'
import { prune } from './retention.ts'
import { webhookRoutes } from './routes.ts'
import { Webhooks } from './service.ts'
import { WebhookWorker, type WorkerOptions } from './worker.ts'

export interface WebhooksNeeds extends Pick<WorkerOptions, 'pool' | 'leadership'> {
  failpoints: Failpoints
  events: WorkerOptions['feed']
  telemetry: { registry: Registry }
  config: {
    webhookAllowPrivate: boolean
    maxWebhooksPerOrg: number
    webhookRetryMs: readonly number[]
    webhookRequestsInFlight: number
    keepDeliveriesDays: number
  }
  logOf(module: string): Log
}

export function openWebhooks({ pool, leadership, events: feed, failpoints, telemetry, config, logOf }: WebhooksNeeds) {
  const { webhookAllowPrivate: allowPrivate } = config
  const worker = new WebhookWorker({
    ...{ pool, leadership, feed, failpoints, log: logOf('webhooks') },
    request: { allowPrivate },
    retryMs: config.webhookRetryMs,
    requestsInFlight: config.webhookRequestsInFlight,
    tried: observeAttempts(telemetry.registry),
  })
  const webhooks = new Webhooks({ pool, leadership, feed, worker, allowPrivate, perOrg: config.maxWebhooksPerOrg })
  return {
    worker,
    customerRoutes: (scope: App) => webhookRoutes(scope, { webhooks, leadership }),
    reconcilers: [
      { name: 'webhooks', everyMs: 1_000, run: () => worker.run() },
      { name: 'webhook-maintenance', everyMs: 15_000, run: () => worker.maintain() },
    ],
    prune: { 'webhook deliveries': (db: Db) => prune(db, config.keepDeliveriesDays) },
    gauges: waitingGauges(worker),
    settled: () => worker.idle(),
  }
}
