// The agent's program: enrols this host, looks at what it needs, or starts the agent and stops it on a signal.
import { parseArgs } from 'node:util'
import { unknownVariables } from '@dormouse/contract'
import {
  type Check,
  ConfigError,
  createLog,
  describeConfig,
  failpointsFrom,
  ok,
  readConfig,
  release,
  runChecks,
  runProcess,
  StartError,
  warning,
  whyNotStarted,
} from '@dormouse/process'
import { readOrExit, UsageError } from '@dormouse/process/arguments'
import { checksOf } from './check-command.ts'
import { configSchema } from './config.ts'
import { startAgent } from './context.ts'
import { enrolHost } from './enrol-command.ts'
import { readSecret } from './read-secret.ts'

const help = `dormouse-agent                         run this host (configuration: docs/configuration.md)
dormouse-agent enrol <url>[,<url>...]  make this machine a host of the control plane at these URLs; the invitation is
                                       on standard input: dormouse admin host invite --json | jq -r .token
  --name <name>                        the name that operators see; by default the host name
dormouse-agent check [<url>[,<url>...]]  look at settings, control plane, libvirt, network, folders; changes nothing
dormouse-agent --version               print the version

  --allow-http  to enrol and check: use plain HTTP to other machines, on a network of trusted machines
  --json        to enrol and check: print one line of JSON`

const { values, positionals } = readOrExit(() =>
  parseArgs({
    allowPositionals: true,
    options: {
      help: { type: 'boolean', short: 'h' },
      version: { type: 'boolean', short: 'v' },
      name: { type: 'string' },
      'allow-http': { type: 'boolean' },
      json: { type: 'boolean' },
    },
  }),
)
const [command = 'serve', ...words] = positionals
const knownSettings = describeConfig(configSchema).map(({ name }) => name)

if (values.help) console.log(help)
else if (values.version) console.log(release.version)
else if (command === 'enrol') await answering(() => enrol(readOrExit(() => urlsIn(words))))
else if (command === 'check')
  await answering(() => check(readOrExit(() => (words.length > 0 ? urlsIn(words) : undefined))))
else if (command !== 'serve' || words.length > 0) refuse(`unknown command ${command}`)
else await serve()

function refuse(sentence: string): void {
  console.error(`${sentence}; see --help`)
  process.exitCode = 2
}

/** Runs a command. Why it failed is one sentence on standard error, and 1 the exit code. */
async function answering(run: () => Promise<void>): Promise<void> {
  try {
    await run()
  } catch (error) {
    const why = error instanceof ConfigError ? error.message : whyNotStarted(error, process.env)
    if (why === undefined) throw error
    console.error(`dormouse-agent: ${why}`)
    process.exitCode = 1
  }
}

async function enrol(controlPlanes: string[]): Promise<void> {
  const config = readConfig(configSchema, process.env)
  const { isNew, identity } = await enrolHost({
    config,
    controlPlanes,
    name: values.name ?? config.name,
    allowHttp: values['allow-http'] ?? config.allowHttp ?? false,
    readInvitation: () => readSecret('Invitation: '),
    say: console.error,
  })
  const { hostId, installationId } = identity
  const answer = { host_id: hostId, installation_id: installationId, control_planes: controlPlanes, is_new: isNew }
  if (values.json) return console.log(JSON.stringify(answer))
  console.log(isNew ? `enrolled as host ${hostId}` : `enrolled already, as host ${hostId}`)
  console.error('Next step: systemctl start dormouse-agent')
}

async function check(controlPlanes: string[] | undefined): Promise<void> {
  const unknown = unknownVariables(process.env, knownSettings)
  const settings: Check = {
    name: 'settings',
    look: async () => (unknown.length > 0 ? warning(unknown.join('; '), 'correct or remove them') : ok('valid')),
  }
  const isWell = await runChecks(await withSettings(settings, controlPlanes), values.json ?? false, console.log)
  process.exitCode = isWell ? 0 : 1
}

/** Without valid settings, nothing else can be looked at. */
async function withSettings(settings: Check, controlPlanes: string[] | undefined): Promise<Check[]> {
  try {
    const config = readConfig(configSchema, process.env)
    return [settings, ...(await checksOf({ config, controlPlanes, allowHttp: values['allow-http'] ?? false }))]
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    const why = new StartError(error.problems.join('\n'))
    return [{ name: 'settings', look: () => Promise.reject(why) }]
  }
}

function urlsIn([text = '', ...more]: string[]): string[] {
  if (more.length > 0) throw new UsageError(`unexpected argument '${more[0]}'`)
  const urls = text.split(',').map((url) => url.trim().replace(/\/+$/, ''))
  const wrong = urls.find((url) => !/^https?:\/\/\S+$/.test(url) || !URL.canParse(url))
  if (wrong !== undefined)
    throw new UsageError(`'${wrong}' is not the URL of a control plane, such as https://dormouse.example`)
  return urls
}

async function serve(): Promise<void> {
  await runProcess({
    name: 'agent',
    start: async (lifetime) => {
      lifetime.log.info(release, 'starting')
      for (const sentence of unknownVariables(process.env, knownSettings)) lifetime.log.warn(sentence)
      const config = readConfig(configSchema, process.env)
      lifetime.log = createLog({ name: 'agent', level: config.logLevel })
      const failpoints = failpointsFrom(config.failpoints)
      const agent = await startAgent({ config, log: lifetime.log, failpoints, signal: lifetime.closing })
      lifetime.onClose('agent', () => agent.close())
    },
  })
}
