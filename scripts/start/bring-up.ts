// Starts the parts in their order: database and hypervisor side by side, then control planes, then hosts.
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { ensureMiniImage } from '../../infra/guest-image/mini.ts'
import { ensureViewer } from '../build/viewer.ts'
import { ensurePackages } from '../testbed/packages.ts'
import { startPostgres } from '../testbed/postgres.ts'
import { identify, run as runProgram, waitFor } from '../testbed/processes.ts'
import { apiPollMs, ensureKeys } from './api.ts'
import { countHosts } from './host-places.ts'
import { settingsFor, startHosts } from './hosts.ts'
import { startHypervisors } from './hypervisor.ts'
import type { Keys } from './instance.ts'
import { leaderOf } from './lead.ts'
import { type Replica, startReplicas } from './replicas.ts'
import type { Run } from './run.ts'
import { watchOver } from './watch.ts'

export interface Service extends Keys {
  replicas: Replica[]
  /** How many real ones. */
  hosts: number
}

const leaderTimeoutMs = 30_000

/** Resolves when at least one host can take desktops. */
export async function bringUp(run: Run, signal: AbortSignal): Promise<Service> {
  const { options, instance, say, step } = run
  const { simulated } = options
  const hosts = simulated ? 0 : countHosts(instance, options.hosts)
  if (!simulated) {
    await ensurePackages({ say, networks: hosts > 1 })
    step('the required packages are installed')
  }
  const imagesDir = options.imagesDir ?? instance.path('images')
  const image = simulated ? undefined : ensureMiniImage({ imagesDir, say })
  image?.catch(() => {}) // It is awaited below, after the parts that are built meanwhile.
  const [databaseUrl, hypervisors] = await Promise.all([
    startDatabase(run),
    hosts > 0 ? startHypervisors(run, hosts) : [],
    ensureViewer({ say }),
  ])
  signal.throwIfAborted()
  const replicas = await startReplicas({
    count: options.replicas,
    port: options.port,
    env: { ...settingsFor(hypervisors), DATABASE_URL: databaseUrl },
    runDir: instance.path('run'),
    say,
    started: ({ stop }) => run.onStop('control plane', stop),
  })
  const urls = replicas.map(({ url }) => url)
  const baseUrl = await requireLeader(replicas)
  const keys = await ensureKeys(instance, baseUrl, () => makeOperatorKey(databaseUrl))
  step(urls.length === 1 ? `the control plane is ready at ${baseUrl}` : `${urls.length} control planes are ready`)
  await image
  await startHosts(run, { urls, operatorKey: keys.operatorKey, hypervisors })
  return { replicas, hosts, ...keys }
}

/** Returns the URL of the database: that of DATABASE_URL, or a Postgres of our own. */
async function startDatabase({ options, instance, say, step, onStop, fail }: Run): Promise<string> {
  if (options.databaseUrl) return options.databaseUrl
  const dataDir = instance.path('postgres')
  const postgres = await startPostgres({
    dataDir,
    runtimeDir: instance.path('run'),
    say,
    durable: true,
  })
  const unwatch = watchOver({
    name: 'Postgres',
    runs: () => identify(postgres.pid) !== undefined,
    start: postgres.restart,
    say,
    lost: () =>
      existsSync(`${dataDir}/PG_VERSION`)
        ? undefined
        : `the database in ${dataDir} was removed; run npm start again for a new one`,
    giveUp: fail,
  })
  onStop('Postgres', () => unwatch().then(postgres.stop))
  step('Postgres is running')
  return postgres.url
}

async function requireLeader(replicas: Replica[]): Promise<string> {
  const leader = await waitFor(() => leaderOf(replicas.map(({ url }) => url)), leaderTimeoutMs, apiPollMs)
  if (leader) return leader
  throw new Error(
    `no control plane became the leader within ${leaderTimeoutMs / 1_000} s; log: ${replicas[0]!.process.logFile}`,
  )
}

async function makeOperatorKey(databaseUrl: string): Promise<string> {
  const main = fileURLToPath(new URL('../../apps/control-plane/src/main.ts', import.meta.url))
  const made = await runProgram(process.execPath, [main, 'operator-key', '--name', 'local'], {
    env: { ...process.env, DATABASE_URL: databaseUrl },
  })
  return made.trim()
}
