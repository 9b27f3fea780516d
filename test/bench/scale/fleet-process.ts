// A program that is many hosts: real agents on the simulated driver, each with its own key, folder and link. It takes the
// agents' code from the checkout that it is told: `node fleet-process.ts <file with its orders>`.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

type AgentModule = typeof import('@dormouse/agent/context.ts')
type ConfigModule = typeof import('@dormouse/agent/config.ts')
type ProcessModule = typeof import('@dormouse/process')

export interface FleetOrders {
  checkout: string
  controlPlane: string
  /** Names and invitations. */
  hosts: { name: string; token: string; stateDir: string }[]
  settings: Record<string, string>
  /** Written when all have started. */
  readyFile: string
}

const startingAtOnce = 8

const orders = JSON.parse(readFileSync(process.argv[2]!, 'utf8')) as FleetOrders
const from = <T>(file: string) => import(pathToFileURL(join(orders.checkout, file)).href) as Promise<T>
const { startAgent } = await from<AgentModule>('apps/agent/src/context.ts')
const { configSchema } = await from<ConfigModule>('apps/agent/src/config.ts')
const { createLog, readConfig } = await from<ProcessModule>('packages/process/src/index.ts')
const log = createLog({ name: 'fleet', level: 'warn' })

const agents: Awaited<ReturnType<AgentModule['startAgent']>>[] = []
const left = [...orders.hosts]
const start = async () => {
  for (let host = left.shift(); host; host = left.shift()) {
    const config = readConfig(configSchema, {
      DORMOUSE_AGENT_CONTROL_PLANES: orders.controlPlane,
      DORMOUSE_AGENT_ENROL_TOKEN: host.token,
      DORMOUSE_AGENT_NAME: host.name,
      DORMOUSE_AGENT_DRIVER: 'simulated',
      DORMOUSE_AGENT_STATE_DIR: host.stateDir,
      ...orders.settings,
    })
    agents.push(await startAgent({ config, log: log.child({ host: host.name }) }))
  }
}
await Promise.all(Array.from({ length: startingAtOnce }, start))
writeFileSync(orders.readyFile, '')
process.once('SIGTERM', async () => {
  await Promise.all(agents.map((agent) => agent.kill()))
  process.exit()
})
