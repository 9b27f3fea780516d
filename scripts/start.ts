// `npm start`: starts everything on this machine, and stops it again on Ctrl-C. Decides the order; the parts are in start/.
import { createServer } from 'node:net'
import { readOrExit } from '@dormouse/process/arguments'
import { bringUp, type Service } from './start/bring-up.ts'
import { endLeftovers } from './start/children.ts'
import { hibernateAwake } from './start/hibernate-awake.ts'
import { interruptions } from './start/interruptions.ts'
import { help, readOptions } from './start/options.ts'
import { openRun } from './start/run.ts'
import { serve } from './start/serve.ts'
import { unknownSettings } from './start/settings.ts'

async function main(): Promise<void> {
  const options = readOrExit(() => readOptions(process.argv.slice(2), process.env, process.cwd()))
  if (options.help) return console.log(help)
  const interrupted = interruptions()
  for (const sentence of unknownSettings(process.env)) console.error(`warning: ${sentence}`)
  const run = openRun(options)
  let service: Service | undefined
  try {
    await endLeftovers(run.instance.path('run'))
    for (let replica = 0; replica < options.replicas; replica++) await requireFree(options.port + replica)
    service = await Promise.race([bringUp(run, interrupted.first), run.failed])
    // Without its data there is nothing to save to.
    run.failed.catch(() => {
      service = undefined
    })
    if (!interrupted.first.aborted) await Promise.race([serve(run, service), interrupted.promise, run.failed])
  } finally {
    if (service) await hibernateAwake(run, service, interrupted.second)
    await run.stopAll()
  }
}

async function requireFree(port: number): Promise<void> {
  const probe = createServer()
  await new Promise<void>((resolve, reject) => {
    probe.once('error', () => reject(new Error(`port ${port} is in use; set PORT to a free port`)))
    probe.listen(port, '127.0.0.1', () => probe.close(() => resolve()))
  })
}

await main().then(
  () => process.exit(process.exitCode ?? 0),
  (error: Error) => {
    console.error(`\n${error.message}`)
    process.exit(1)
  },
)
