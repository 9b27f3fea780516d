// Operators' routes for releases: which runs where. Only HTTP.
import { type ReplicaJson, replicaJson } from '@dormouse/contract'
import { z } from 'zod'
import type { Pool } from '../db/pool.ts'
import type { App } from '../http/app.ts'
import { liveReplicas, type ReplicaRow } from '../leadership/store.ts'

export function upgradeRoutes(app: App, { pool }: { pool: Pool }): void {
  app.get('/replicas', { schema: { response: { 200: z.object({ replicas: z.array(replicaJson) }) } } }, async () => ({
    replicas: (await liveReplicas(pool)).map(replicaToJson),
  }))
}

export const replicaToJson = ({ startedAt, seenAt, ...replica }: ReplicaRow): ReplicaJson => ({
  ...replica,
  started_at: startedAt.toISOString(),
  seen_at: seenAt.toISOString(),
})
