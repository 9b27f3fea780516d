// A program that is many hosts: real agents on the simulated driver, each with its own key, folder and link. It takes the
// agents' code from the checkout that its orders name: `node fleet-process.ts <file with its orders>`. On a port of its own
// it takes two requests, each with a list of names: `POST /cut` and `POST /restore`.
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { json } from 'node:stream/consumers'
import { pathToFileURL } from 'node:url'

type AgentModule = typeof import('@dormouse/agent/context.ts')
type ConfigModule = typeof import('@dormouse/agent/config.ts')
type ProcessModule = typeof import('@dormouse/process')
type Agent = Awaited<ReturnType<AgentModule['startAgent']>>

export interface FleetHost {
  name: string
  /** Its invitation. */
  token: string
  stateDir: string
}

export interface FleetOrders {
  checkout: string
  controlPlane: string
  hosts: FleetHost[]
  settings: Record<string, string>
  /** Written when all have started; contains the port. */
  readyFile: string
}

const startingAtOnce = 8

const orders = JSON.parse(readFileSync(process.argv[2]!, 'utf8')) as FleetOrders
const from = <T>(file: string) => import(pathToFileURL(join(orders.checkout, file)).href) as Promise<T>
const { startAgent } = await from<AgentModule>('apps/agent/src/context.ts')
const { configSchema } = await from<ConfigModule>('apps/agent/src/config.ts')
const { createLog, readConfig } = await from<ProcessModule>('packages/process/src/index.ts')
const log = createLog({ name: 'fleet', level: 'warn' })

const agents = new Map<string, Agent>()

async function start({ name, token, stateDir }: FleetHost): Promise<void> {
  const config = readConfig(configSchema, {
    DORMOUSE_AGENT_CONTROL_PLANES: orders.controlPlane,
    DORMOUSE_AGENT_ENROL_TOKEN: token,
    DORMOUSE_AGENT_NAME: name,
    DORMOUSE_AGENT_DRIVER: 'simulated',
    DORMOUSE_AGENT_TEMPLATES_MIB: '0',
    DORMOUSE_AGENT_STATE_DIR: stateDir,
    DORMOUSE_AGENT_METRICS_LISTEN: 'off',
    ...orders.settings,
  })
  agents.set(name, await startAgent({ config, log: log.child({ host: name }) }))
}

/** As a power cut does: the agent ends at once, and so does every guest. Disks, saved memory and journal stay. */
async function cut({ name, stateDir }: FleetHost): Promise<void> {
  await agents.get(name)?.kill()
  agents.delete(name)
  rmSync(join(stateDir, 'simulated', 'domains'), { recursive: true, force: true })
}

async function forEach(hosts: readonly FleetHost[], work: (host: FleetHost) => Promise<void>): Promise<void> {
  const left = [...hosts]
  const next = async () => {
    for (let host = left.shift(); host; host = left.shift()) await work(host)
  }
  await Promise.all(Array.from({ length: startingAtOnce }, next))
}

await forEach(orders.hosts, start)
const server = createServer(async (request, response) => {
  const names = new Set((await json(request)) as string[])
  await forEach(
    orders.hosts.filter(({ name }) => names.has(name)),
    request.url === '/cut' ? cut : start,
  )
  response.end()
})
server.listen(0, '127.0.0.1', () => writeFileSync(orders.readyFile, String((server.address() as AddressInfo).port)))
process.once('SIGTERM', async () => {
  server.close()
  await Promise.all([...agents.values()].map((agent) => agent.kill()))
  process.exit()
})
