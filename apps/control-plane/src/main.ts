#!/usr/bin/env node
// The control plane's program: serves until it is stopped, checks what it stands on, prepares the database, or makes an operator's key.
import { parseArgs } from 'node:util'
import { unknownVariables } from '@dormouse/contract'
import {
  createLog,
  describeConfig,
  failpointsFrom,
  type Lifetime,
  readConfig,
  release,
  runChecks,
  runProcess,
} from '@dormouse/process'
import { readOrExit } from '@dormouse/process/arguments'
import { record } from './audit/store.ts'
import { checksOf } from './check.ts'
import { configSchema } from './config.ts'
import { startControlPlane } from './context.ts'
import { migrate } from './db/migrate.ts'
import { explained } from './db/opening.ts'
import { type Note, openPool } from './db/pool.ts'
import { Principals } from './principals/service.ts'

const help = `dormouse-control-plane                          serve (configuration: docs/configuration.md)
dormouse-control-plane check [--json]           look at settings, database, public URL and issuer; changes nothing
dormouse-control-plane init                     make the schema, and the first operator key, which is printed once
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
      json: { type: 'boolean' },
    },
  }),
)
const [command = 'serve', ...more] = positionals

if (values.help) console.log(help)
else if (values.version) console.log(release.version)
else if (more.length > 0) refuse(`unexpected argument '${more[0]}'`)
else if (values.json && command !== 'check') refuse('--json is for check')
else if (command === 'check') process.exitCode = await check(values.json ?? false)
else if (command === 'init') await makeOperatorKey('first operator', true)
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

/** The exit code: 1 if something failed. */
async function check(isJson: boolean): Promise<number> {
  return (await runChecks(checksOf(configOf), isJson, console.log)) ? 0 : 1
}

/** `isFirst`: makes none if there is one already. */
async function makeOperatorKey(name: string, isFirst = false): Promise<void> {
  await runProcess({
    name: 'control-plane',
    start: async (lifetime) => {
      // Standard output carries only the key.
      const { databaseUrl } = configOf(console.error)
      const log = createLog({ name: 'control-plane', level: 'warn' })
      lifetime.log = log
      await printOperatorKey(lifetime, databaseUrl, name, isFirst).catch(explainFailure)
      lifetime.end('made')
    },
  })
}

async function printOperatorKey(
  lifetime: Lifetime,
  databaseUrl: string,
  name: string,
  isFirst: boolean,
): Promise<void> {
  const { log } = lifetime
  await migrate({ databaseUrl, log })
  const pool = openPool(databaseUrl, 1, (error) => log.warn({ err: error }, 'the database connection was lost'))
  lifetime.onClose('database', () => pool.end())
  const note: Note = (tx, subject, details) =>
    record(tx, { actor: 'command line', action: 'operator_key.create', subject, details: details ?? {} })
  const principals = new Principals(pool, log)
  if (isFirst && (await principals.listOperatorKeys()).some(({ revoked_at }) => !revoked_at))
    console.error('the schema is up to date, and there are operator keys already; operator-key makes another one')
  else console.log(await principals.createOperatorKey(name, note))
}

function configOf(warn: (sentence: string) => void) {
  const known = describeConfig(configSchema).map(({ name }) => name)
  unknownVariables(process.env, known).forEach(warn)
  return readConfig(configSchema, process.env)
}

function explainFailure(error: unknown): never {
  throw explained(error)
}
