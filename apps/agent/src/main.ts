// The agent's program: reads the settings, starts the agent, and stops it on a signal.
import { parseArgs } from 'node:util'
import { unknownVariables } from '@dormouse/contract'
import { createLog, describeConfig, failpointsFrom, readConfig, release, runProcess } from '@dormouse/process'
import { readOrExit } from '@dormouse/process/arguments'
import { configSchema } from './config.ts'
import { startAgent } from './context.ts'

const help = `dormouse-agent             run this host (configuration: docs/configuration.md)
dormouse-agent --version   print the version`

const { help: wantsHelp, version } = readOrExit(() =>
  parseArgs({ options: { help: { type: 'boolean', short: 'h' }, version: { type: 'boolean', short: 'v' } } }),
).values

if (wantsHelp) console.log(help)
else if (version) console.log(release.version)
else await serve()

async function serve(): Promise<void> {
  await runProcess({
    name: 'agent',
    start: async (lifetime) => {
      lifetime.log.info(release, 'starting')
      const known = describeConfig(configSchema).map(({ name }) => name)
      for (const sentence of unknownVariables(process.env, known)) lifetime.log.warn(sentence)
      const config = readConfig(configSchema, process.env)
      lifetime.log = createLog({ name: 'agent', level: config.logLevel })
      const failpoints = failpointsFrom(config.failpoints)
      const agent = await startAgent({ config, log: lifetime.log, failpoints, signal: lifetime.closing })
      lifetime.onClose('agent', () => agent.close())
    },
  })
}
