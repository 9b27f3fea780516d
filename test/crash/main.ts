// `npm run test:crash`: kill -9 in the middle of accepted operations, and what must hold afterwards. Prints a table.
import { parseArgs } from 'node:util'
import { fetchFailpoints, killInFetch } from './fetches.ts'
import { killInMoves, type MoveOutcome, moveFailpoints } from './moves.ts'
import { plansAt, plansOf } from './plan.ts'
import { runTrials } from './run.ts'
import { realTestbed, simulatedTestbed } from './testbeds.ts'
import type { Outcome } from './trial.ts'

const help = `node test/crash/main.ts [--simulated | --real [--share]] [--trials N] [--seed N]
    [--at PREFIX] [--json]

Eight requests at once on eight desktops, then kill -9 of the control plane (or, every other time, of the agent), at a
named failpoint or at a random moment; restart; every accepted operation must be known, must have ended well, and
nothing may be half-made. On simulated hosts the agent is then killed at each failpoint of an image's fetch, and each
process at each failpoint of a move between two hosts. New desktops begin with a template; its making is interrupted, too.
With --share, real ones share the template's memory. With --at, each failpoint whose name begins so is reached once, and
nothing else is done. The seed that is printed repeats a run.`

const { values } = parseArgs({
  options: {
    help: { type: 'boolean', short: 'h' },
    simulated: { type: 'boolean' },
    real: { type: 'boolean' },
    at: { type: 'string' },
    share: { type: 'boolean', default: false },
    trials: { type: 'string', default: '20' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    json: { type: 'boolean' },
  },
})

if (values.help) console.log(help)
else process.exitCode = await main()

async function main(): Promise<number> {
  const [trials, seed] = [Number(values.trials), Number(values.seed)]
  const testbed = values.real ? (folder: string) => realTestbed(folder, values.share) : simulatedTestbed
  const say = values.json ? console.error : console.log
  const { at } = values
  const what = at === undefined ? `${trials} crash trials, seed ${seed}` : `crash trials at ${at || 'every failpoint'}`
  say(`${what}, ${values.real ? 'real QEMU' : 'simulated'}`)
  say(row('trial', 'killed', 'at', ['accepted', 'known', 'finished well', 'half-made', 'gone'], 'time'))
  const hasMore = !values.real && at === undefined
  const fetchFaults: string[] = []
  const moveFaults: string[] = []
  const outcomes = await runTrials({
    plans: (spanMs) => (at === undefined ? plansOf(trials, seed, spanMs) : plansAt(at)),
    testbed,
    tell: (outcome) => say(lineOf(outcome)),
    keep: (folder) => say(`logs: ${folder}`),
    afterwards: async (stage) => {
      const paths = Object.entries(stage.paths).map(([path, times]) => `${times} by ${path}`)
      say(`wakes: ${paths.join(', ')}`)
      if (!hasMore) return
      fetchFaults.push(...(await killInFetch(stage, fetchFailpoints)))
      moveFaults.push(...(await killInMoves(stage, moveFailpoints, (outcome) => say(moveLineOf(outcome)))))
    },
  })
  const sum = (of: (outcome: Outcome) => number) => outcomes.reduce((total, outcome) => total + of(outcome), 0)
  const totals = [
    sum(({ accepted }) => accepted),
    sum(({ known }) => known),
    sum(({ finishedWell }) => finishedWell),
    sum(({ halfMade }) => halfMade),
    sum(({ gone }) => gone),
  ]
  say(row('all', '', '', totals.map(String), `${(sum(({ tookMs }) => tookMs) / 1_000).toFixed(1)} s`))
  if (hasMore)
    say(`the agent killed ${fetchFailpoints.length} times in a fetch: ${fetchFaults.join('; ') || 'no fault'}`)
  if (hasMore) say(`moves between two hosts: ${moveFaults.join('; ') || 'no fault'}`)
  if (values.json) console.log(JSON.stringify({ seed, testbed: values.real ? 'real' : 'simulated', outcomes }))
  const isClean = fetchFaults.length === 0 && moveFaults.length === 0
  return isClean && outcomes.every(({ faults }) => faults.length === 0) ? 0 : 1
}

function moveLineOf({ victim, failpoint, from, moved, faults }: MoveOutcome): string {
  const line = `${victim.padEnd(14)} ${failpoint.padEnd(34)} ${from.padEnd(10)} ${moved ? 'moved' : 'stayed'}`
  return [line, ...faults.map((fault) => `        ! ${fault}`)].join('\n')
}

function lineOf({ plan, reached, tookMs, faults, ...counts }: Outcome): string {
  const at = plan.failpoint
    ? `${plan.failpoint.replace('=kill', ' ')}${reached ? '' : ' (not reached)'}`
    : `${plan.momentMs} ms`
  const { accepted, known, finishedWell, halfMade, gone } = counts
  const numbers = [accepted, known, finishedWell, halfMade, gone].map(String)
  const line = row(String(plan.trial + 1), plan.victim, at, numbers, `${(tookMs / 1_000).toFixed(1)} s`)
  return [line, ...faults.map((fault) => `        ! ${fault}`)].join('\n')
}

function row(trial: string, victim: string, at: string, counts: string[], time: string): string {
  const widths = [9, 6, 14, 10, 5]
  const columns = counts.map((count, i) => count.padStart(widths[i] ?? 8))
  return [trial.padStart(5), victim.padEnd(14), at.padEnd(34), ...columns, time.padStart(8)].join(' ')
}
