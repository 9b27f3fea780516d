#!/usr/bin/env node
// The control plane's program: serves until it is stopped, migrates the database, or makes an operator's key.
import { parseArgs } from 'node:util'
import { unknownVariables } from '@dormouse/contract'
import { createLog, describeConfig, failpointsFrom, readConfig, release, runProcess } from '@dormouse/process'
import { readOrExit } from '@dormouse/process/arguments'
import { record } from './audit/store.ts'
import { configSchema } from './config.ts'
import { startControlPlane } from './context.ts'
import { migrate } from './db/migrate.ts'
import { explained } from './db/opening.ts'
import { type Note, openPool } from './db/pool.ts'
import { Principals } from './principals/service.ts'

const help = `dormouse-control-plane                          serve (configuration: docs/configuration.md)
dormouse-control-plane migrate                  bring the database up to date and exit; the previous release may keep serving
dormouse-control-plane operator-key [--name N]  make an operator's key and print it once
dormouse-control-plane --version                print the version`

const { positionals, values } = readOrExit(() =>
  parseArgs({
    allowPositionals: true,
    options: {
      help: { type: 'boolean', short: 'h' },
      version: { type: 'boolean', short: 'v' },
      name: { type: 'string' },
    },
  }),
)
const [command = 'serve', ...more] = positionals

if (values.help) console.log(help)
else if (values.version) console.log(release.version)
else if (more.length > 0) refuse(`unexpected argument '${more[0]}'`)
else if (command === 'operator-key') await makeOperatorKey(values.name ?? 'operator')
else if (values.name !== undefined) refuse('--name is for operator-key')
else if (command === 'migrate') await migrateOnly()
else if (command === 'serve') await serve()
else refuse(`unknown command ${command}`)

function refuse(sentence: string): void {
  console.error(`${sentence}; see --help`)
  process.exitCode = 2
}

async function serve(): Promise<void> {
  await runProcess({
    name: 'control-plane',
    start: async (lifetime) => {
      lifetime.log.info(release, 'starting')
      const config = configOf((sentence) => lifetime.log.warn(sentence))
      lifetime.log = createLog({ name: 'control-plane', level: config.logLevel })
      const failpoints = failpointsFrom(config.failpoints)
      const controlPlane = await startControlPlane(config, lifetime.log, failpoints, lifetime.closing, () =>
        lifetime.ready(),
      )
      lifetime.onClose('control-plane', () => controlPlane.close())
    },
  })
}

async function migrateOnly(): Promise<void> {
  await runProcess({
    name: 'control-plane',
    start: async (lifetime) => {
      const { databaseUrl } = configOf((sentence) => lifetime.log.warn(sentence))
      const applied = await migrate({ databaseUrl, log: lifetime.log }).catch(explainFailure)
      lifetime.log.info({ applied }, 'the schema is up to date')
      lifetime.end('migrated')
    },
  })
}

async function makeOperatorKey(name: string): Promise<void> {
  await runProcess({
    name: 'control-plane',
    start: async (lifetime) => {
      // Standard output carries only the key.
      const { databaseUrl } = configOf(console.error)
      const log = createLog({ name: 'control-plane', level: 'warn' })
      lifetime.log = log
      await migrate({ databaseUrl, log }).catch(explainFailure)
      const pool = openPool(databaseUrl, 1, (error) => log.warn({ err: error }, 'the database connection was lost'))
      lifetime.onClose('database', () => pool.end())
      const note: Note = (tx, subject, details) =>
        record(tx, { actor: 'command line', action: 'operator_key.create', subject, details: details ?? {} })
      console.log(await new Principals(pool, log).createOperatorKey(name, note))
      lifetime.end('made')
    },
  })
}

function configOf(warn: (sentence: string) => void) {
  const known = describeConfig(configSchema).map(({ name }) => name)
  unknownVariables(process.env, known).forEach(warn)
  return readConfig(configSchema, process.env)
}

function explainFailure(error: unknown): never {
  throw explained(error)
}
