// The wing of keys that customers make: what it brings to the rest of the control plane.
import type { App } from '../http/app.ts'
import { pruneKeys } from '../principals/store.ts'
import { keyRoutes } from './routes.ts'
import { Keys, type KeysOptions } from './service.ts'

export function openKeys(options: KeysOptions) {
  const keys = new Keys(options)
  return {
    customerRoutes: (scope: App) => keyRoutes(scope, { keys }),
    prune: { keys: pruneKeys },
  }
}
