// `npm run check`: everything that can be said of the code without running it. Changes no file.
import { parseArgs } from 'node:util'
import { lineOf, type Outcome, runSteps, type Step } from './check/steps.ts'

const help = `npm run check              lint and format, types, dead code, generated pages
npm run check -- --json    the same as one JSON document on stdout

Nothing is changed. Types are checked once per state of a workspace and of what it stands on (turbo's cache, local).`

const steps: Step[] = [
  {
    name: 'types',
    command: ['turbo', 'run', 'check', '--no-daemon', '--continue'],
    remedy: 'read the messages above; one workspace alone: npm run check -w <workspace>',
  },
  { name: 'types of root', command: ['tsc', '-p', '.'], remedy: 'read the messages above; alone: npx tsc -p .' },
  {
    name: 'lint, format',
    command: ['biome', 'check', '--max-diagnostics=50', '.'],
    remedy: 'npm run format mends what can be mended by itself; the rest is said above',
  },
  {
    name: 'dead code',
    command: ['knip', '--no-progress', '--no-config-hints'],
    remedy: 'remove what is named above, or use it; what knip cannot see is declared in knip.json',
  },
  {
    name: 'pages',
    command: [process.execPath, 'scripts/generate-docs.ts', '--check'],
    remedy: 'npm run docs writes them anew; commit them',
  },
]

const { values } = parseArgs({ options: { help: { type: 'boolean', short: 'h' }, json: { type: 'boolean' } } })
if (values.help) console.log(help)
else process.exitCode = await check(values.json ?? false)

async function check(json: boolean): Promise<number> {
  const began = performance.now()
  const outcomes = await runSteps(steps, (outcome) => console.error(lineOf(outcome)))
  const failed = outcomes.filter(({ ok }) => !ok)
  const duration_ms = Math.round(performance.now() - began)
  if (json) console.log(JSON.stringify({ ok: failed.length === 0, duration_ms, steps: outcomes }, null, 2))
  else say(failed, duration_ms)
  return failed.length === 0 ? 0 : 1
}

function say(failed: Outcome[], durationMs: number): void {
  for (const { name, output, remedy } of failed) console.error(`\n── ${name}\n${output}\n→ ${remedy}`)
  const verdict = failed.length === 0 ? 'all is well' : `${failed.length} of ${steps.length} failed`
  console.error(`\n${verdict}, ${(durationMs / 1_000).toFixed(1)} s`)
}
