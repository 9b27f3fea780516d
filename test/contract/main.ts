// `npm run conformance`: holds a running service, anywhere, to the contract, with nothing but two keys of two
// organisations. Makes its own small desktops, destroys them at the end, and touches no other.
import { parseArgs } from 'node:util'
import { Context } from './context.ts'
import { type Outcome, run } from './run.ts'
import { chapters } from './table.ts'

const { values } = parseArgs({
  options: {
    help: { type: 'boolean' },
    url: { type: 'string' },
    key: { type: 'string' },
    'other-key': { type: 'string' },
    only: { type: 'string', multiple: true },
    json: { type: 'boolean' },
    'timeout-secs': { type: 'string', default: '1200' },
  },
})
const { url, key, 'other-key': otherKey } = values
if (values.help || !url || !key || !otherKey) {
  console.log(
    'npm run conformance -- --url https://… --key svc_sk_… --other-key svc_sk_… [--only id]… [--json] [--timeout-secs 1200]\n' +
      'The keys belong to two organisations. Small desktops are made in both and destroyed at the end.',
  )
  process.exitCode = values.help ? 0 : 2
} else {
  const signal = AbortSignal.timeout(Number(values['timeout-secs']) * 1000)
  process.exitCode = await main(new Context({ url, key, otherKey, signal }))
}

async function main(context: Context): Promise<number> {
  const { only } = values
  const outcomes: Outcome[] = []
  for (const { title, rows } of chapters) {
    const wanted = only ? rows.filter(({ id }) => only.includes(id)) : rows
    if (wanted.length > 0) say(`\n${title}`)
    for await (const outcome of run(wanted, context)) {
      outcomes.push(outcome)
      say(line(outcome))
    }
  }
  const left = await context.close()
  const count = (verdict: Outcome['verdict']) => outcomes.filter((one) => one.verdict === verdict).length
  const summary = { passed: count('passed'), failed: count('failed'), not_checked_here: count('not checked here') }
  if (values.json) console.log(JSON.stringify({ ...summary, left, rows: outcomes }, null, 2))
  for (const one of left) say(one)
  say(`\n${summary.passed} passed, ${summary.failed} failed, ${summary.not_checked_here} not checked here`)
  return summary.failed === 0 && left.length === 0 && outcomes.length > 0 ? 0 : 1
}

function line({ id, sentence, verdict, note }: Outcome): string {
  const sign = { passed: '✓', failed: '✗', 'not checked here': '·' }[verdict]
  return `${sign} ${id}  ${sentence}${note ? `\n    ${note}` : ''}`
}

function say(text: string): void {
  if (!values.json) console.log(text)
}
