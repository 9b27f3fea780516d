// The control planes that the starter keeps, on one database: each a process at an address of its own.
import type { Say } from '../ground/processes.ts'
import { ready } from './api.ts'
import { type Child, keepRunning } from './children.ts'
import { untilReady } from './readiness.ts'

export interface Replica {
  url: string
  process: Child
}

export interface ReplicasOptions {
  count: number
  /** Of the first; each other has the next one. */
  port: number
  env: Record<string, string>
  runDir: string
  say: Say
  /** Called for each at once, so that it is stopped also where the next does not start. */
  started(process: Child): void
}

/** Starts one after the other, each ready before the next: the first one leads. */
export async function startReplicas({ count, port, env, started, ...place }: ReplicasOptions): Promise<Replica[]> {
  const replicas: Replica[] = []
  for (let at = 0; at < count; at++) {
    const url = `http://127.0.0.1:${port + at}`
    const process = await keepRunning({
      ...place,
      name: count === 1 ? 'control plane' : `control plane ${at + 1}`,
      file: 'apps/control-plane/src/main.ts',
      // Each of several has an address of its own, whatever the environment says.
      env: { ...env, PORT: String(port + at), ...(count > 1 && { DORMOUSE_PUBLIC_URL: url }) },
    })
    started(process)
    await untilReady({ isReady: () => ready(url), logFile: process.logFile, say: place.say })
    replicas.push({ url, process })
  }
  return replicas
}
