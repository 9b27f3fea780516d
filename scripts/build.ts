// `npm run build`: every package's dist and every app's bundle. What did not change is taken from turbo's local cache.
import { parseArgs } from 'node:util'
import { lineOf, runSteps } from './check/steps.ts'

const help = `npm run build              apps/*/dist/main.js, one file each with its source map, and packages/*/dist
npm run build -- --json    the same, with one JSON document on stdout

A bundle runs on a plain Node 24, without node_modules: node apps/control-plane/dist/main.js`

const { values } = parseArgs({ options: { help: { type: 'boolean', short: 'h' }, json: { type: 'boolean' } } })
if (values.help) console.log(help)
else process.exitCode = await build(values.json ?? false)

async function build(json: boolean): Promise<number> {
  const command = ['turbo', 'run', 'build', '--no-daemon'] as const
  const remedy = 'read the messages above; one workspace alone: npm run build -w <workspace>'
  const [outcome] = await runSteps([{ name: 'build', command, remedy }], (done) => console.error(lineOf(done)))
  if (json) console.log(JSON.stringify(outcome, null, 2))
  else if (!outcome?.ok) console.error(`\n${outcome?.output}\n→ ${remedy}`)
  return outcome?.ok ? 0 : 1
}
