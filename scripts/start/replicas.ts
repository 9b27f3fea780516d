// The control planes of a run: processes on one database, each with its own address.
import { fileURLToPath } from 'node:url'
import { controlPlaneOptions } from '../testbed/control-plane-options.ts'
import type { Say } from '../testbed/processes.ts'
import { isReady } from './api.ts'
import { type Child, keepRunning } from './children.ts'
import { waitUntilReady } from './readiness.ts'

export interface Replica {
  url: string
  process: Child
}

export interface ReplicasOptions {
  count: number
  /** The port of the first; each other one has the next port. */
  port: number
  env: Record<string, string>
  runDir: string
  say: Say
  /** Called for each as it starts, so that it is stopped even if the next one fails to start. */
  started(process: Child): void
}

const root = fileURLToPath(new URL('../../', import.meta.url))

/** Starts one after another, each when the one before is ready: so the first one leads. */
export async function startReplicas({ count, port, env, started, ...place }: ReplicasOptions): Promise<Replica[]> {
  const replicas: Replica[] = []
  for (let at = 0; at < count; at++) {
    const url = `http://127.0.0.1:${port + at}`
    const process = await keepRunning({
      ...place,
      name: count === 1 ? 'control plane' : `control plane ${at + 1}`,
      file: 'apps/control-plane/src/main.ts',
      // Several replicas need an address each, whatever the environment sets.
      env: {
        NODE_OPTIONS: controlPlaneOptions(root),
        ...env,
        PORT: String(port + at),
        ...(count > 1 && { DORMOUSE_PUBLIC_URL: url }),
      },
    })
    started(process)
    await waitUntilReady({ isReady: () => isReady(url), logFile: process.logFile, say: place.say })
    replicas.push({ url, process })
  }
  return replicas
}
