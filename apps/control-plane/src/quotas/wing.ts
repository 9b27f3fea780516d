// The wing of quotas by selector: what it brings to the rest of the control plane.
import type { Pool } from '../db/pool.ts'
import type { App } from '../http/app.ts'
import { QuotaGate } from './gate.ts'
import { quotaAdminRoutes, quotaRoutes } from './routes.ts'
import { Quotas } from './service.ts'

export interface QuotasNeeds {
  pool: Pool
  config: { maxDesktopsPerOrg: number }
}

export function openQuotas({ pool, config }: QuotasNeeds) {
  const quotas = new Quotas(pool, config.maxDesktopsPerOrg)
  return {
    labelRules: new QuotaGate(pool),
    customerRoutes: (scope: App) => quotaRoutes(scope, quotas),
    operatorRoutes: (scope: App) => quotaAdminRoutes(scope, quotas),
  }
}
