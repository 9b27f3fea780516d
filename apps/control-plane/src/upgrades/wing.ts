// The wing of upgrades: what it brings to the rest of the control plane.
import type { Pool } from '../db/pool.ts'
import type { App } from '../http/app.ts'
import { upgradeRoutes } from './routes.ts'

export const openUpgrades = ({ pool }: { pool: Pool }) => ({
  operatorRoutes: (scope: App) => upgradeRoutes(scope, { pool }),
})
