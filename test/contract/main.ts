// `npm run conformance`: holds a running service, anywhere, to the contract, with nothing but two keys of two
// organisations. Makes its own small desktops, destroys them at the end, and touches no other.
import { parseArgs } from 'node:util'
import { readOrExit } from '@dormouse/process/arguments'
import { Context } from './context.ts'
import { findPlace, lookAround, Unusable } from './place.ts'
import { type Outcome, run } from './run.ts'
import { chapters } from './table.ts'

const help = `npm run conformance                        the local service that \`npm start\` has started
npm run conformance -- --url https://… --key svc_sk_… --other-key svc_sk_…
                                           any other; the keys belong to two organisations:
                                           npx dormouse admin org create second
                                           npx dormouse admin key create --org <id> --name conformance
  --only <row>…          these rows only, such as get.404
  --json                 one JSON document on stdout and nothing else
  --timeout-secs <n>     for the whole run (default 1200)

Small desktops are made in both organisations, woken, and destroyed at the end. One row takes a minute; it runs
beside the others. Exits with 0 where no row failed, 1 where one did, 2 where nothing could be checked.`

const { values } = readOrExit(() =>
  parseArgs({
    options: {
      help: { type: 'boolean', short: 'h' },
      url: { type: 'string' },
      key: { type: 'string' },
      'other-key': { type: 'string' },
      only: { type: 'string', multiple: true },
      json: { type: 'boolean' },
      'timeout-secs': { type: 'string', default: '1200' },
    },
  }),
)

if (values.help) console.log(help)
else
  process.exitCode = await main().catch((error: unknown) => {
    if (!(error instanceof Unusable)) throw error
    console.error(`${error.message}\n\n${help}`)
    return 2
  })

async function main(): Promise<number> {
  const wanted = chosen(values.only)
  const signal = AbortSignal.timeout(wholeNumber(values['timeout-secs']) * 1000)
  const place = { ...(await findPlace(values)), signal }
  const [context, beside] = [new Context(place), new Context(place)]
  const outcomes: Outcome[] = []
  let left: string[] = []
  try {
    await lookAround(context)
    say(`${place.url} and the contract:`)
    let title = ''
    for await (const outcome of run(wanted, context, beside)) {
      if (outcome.chapter !== title) say(`\n${outcome.chapter}`)
      title = outcome.chapter
      outcomes.push(outcome)
      say(line(outcome))
    }
  } finally {
    left = [...(await context.close()), ...(await beside.close())]
    await place.leave()
  }
  return tell(outcomes, left)
}

/** The rows of these ids, or all. */
function chosen(only: string[] | undefined): typeof chapters {
  const known = chapters.flatMap(({ rows }) => rows.map(({ id }) => id))
  const strange = only?.find((id) => !known.includes(id))
  if (strange) throw new Unusable(`No row is called "${strange}".`)
  if (!only) return chapters
  return chapters.map(({ title, rows }) => ({ title, rows: rows.filter(({ id }) => only.includes(id)) }))
}

function tell(outcomes: Outcome[], left: string[]): number {
  const count = (verdict: Outcome['verdict']) => outcomes.filter((one) => one.verdict === verdict).length
  const summary = { passed: count('passed'), failed: count('failed'), not_checked_here: count('not checked here') }
  const failed = outcomes.filter(({ verdict }) => verdict === 'failed')
  if (values.json) console.log(JSON.stringify({ ...summary, left, rows: outcomes }, null, 2))
  if (failed.length > 0) say('\nFailed:')
  for (const outcome of failed) say(line(outcome))
  for (const one of left) say(one)
  say(`\n${summary.passed} passed, ${summary.failed} failed, ${summary.not_checked_here} not checked here`)
  return failed.length === 0 && left.length === 0 ? 0 : 1
}

function line({ id, sentence, verdict, note }: Outcome): string {
  const sign = { passed: '✓', failed: '✗', 'not checked here': '·' }[verdict]
  return `${sign} ${id}  ${sentence}${note ? `\n    ${note}` : ''}`
}

function say(text: string): void {
  if (!values.json) console.log(text)
}

function wholeNumber(text: string): number {
  if (/^[1-9]\d{0,6}$/.test(text)) return Number(text)
  throw new Unusable(`--timeout-secs is "${text}"; it must be a whole number of seconds`)
}
