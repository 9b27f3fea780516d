// The agent's process: reads the settings, starts the agent, and stops it on a signal.
import { createLog, failpointsFrom, readConfig, runProcess } from '@dormouse/process'
import { configSchema } from './config.ts'
import { startAgent } from './context.ts'

await runProcess({
  name: 'agent',
  start: async (lifetime) => {
    const config = readConfig(configSchema, process.env)
    lifetime.log = createLog({ name: 'agent', level: config.logLevel })
    const agent = await startAgent({ config, log: lifetime.log, failpoints: failpointsFrom(config.failpoints) })
    lifetime.onClose('agent', () => agent.close())
  },
})
