#!/usr/bin/env node
// The control plane's program: serves until it is stopped, migrates the database, or makes an operator's key.
import { parseArgs } from 'node:util'
import { createLog, failpointsFrom, readConfig, runProcess } from '@dormouse/process'
import { record } from './audit/store.ts'
import { configSchema } from './config.ts'
import { startControlPlane } from './context.ts'
import { migrate } from './db/migrate.ts'
import { type Note, openPool } from './db/pool.ts'
import { Principals } from './principals/service.ts'

const help = `dormouse-control-plane                          serve (configuration: docs/configuration.md)
dormouse-control-plane migrate                  bring the database up to date and exit; the previous release may keep serving
dormouse-control-plane operator-key [--name N]  make an operator's key and print it once`

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { help: { type: 'boolean', short: 'h' }, name: { type: 'string', default: 'operator' } },
})

if (values.help) console.log(help)
else if (positionals[0] === 'operator-key') await makeOperatorKey(values.name)
else if (positionals[0] === 'migrate') await migrateOnly()
else if (positionals.length === 0) await serve()
else {
  console.error(`unknown command ${positionals[0]}\n\n${help}`)
  process.exitCode = 2
}

async function serve(): Promise<void> {
  await runProcess({
    name: 'control-plane',
    start: async (lifetime) => {
      const config = readConfig(configSchema, process.env)
      lifetime.log = createLog({ name: 'control-plane', level: config.logLevel })
      const controlPlane = await startControlPlane(config, lifetime.log, failpointsFrom(config.failpoints))
      lifetime.onClose('control-plane', () => controlPlane.close())
    },
  })
}

async function migrateOnly(): Promise<void> {
  await runProcess({
    name: 'control-plane',
    start: async (lifetime) => {
      const { databaseUrl } = readConfig(configSchema, process.env)
      const applied = await migrate({ databaseUrl, log: lifetime.log })
      lifetime.log.info({ applied }, 'the schema is up to date')
      lifetime.end('migrated')
    },
  })
}

async function makeOperatorKey(name: string): Promise<void> {
  const config = readConfig(configSchema, process.env)
  const log = createLog({ name: 'control-plane', level: 'warn' })
  await migrate({ databaseUrl: config.databaseUrl, log })
  const pool = openPool(config.databaseUrl, 1, (error) => log.warn({ err: error }, 'the database connection was lost'))
  const note: Note = (tx, subject, details) =>
    record(tx, { actor: 'command line', action: 'operator_key.create', subject, details: details ?? {} })
  console.log(await new Principals(pool, log).createOperatorKey(name, note))
  await pool.end()
}
