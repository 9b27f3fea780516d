// `npm run fuzz`: says to a service what nobody should, for a while, and counts what came back. Any 500, any answer that
// is no problem with a request id, any connection left open is a fault. The seed repeats a run, the number one input.
import { readdirSync, readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { orExplain } from '../../scripts/words.ts'
import { Instance } from '../real/instance.ts'
import { Fuzz, type Target } from './run.ts'

const help = `npm run fuzz -- [--seconds 60] [--seed N] [--only AT] [--json] [--url http://… --key svc_sk_… [--operator-key svc_op_…]]

Malformed HTTP and JSON on every route, over raw connections. Without --url a service with one simulated host is started
for the run, and its control plane is watched. Its own desktops are made and destroyed; it touches no other.
--only AT with the same --seed sends that one input again and shows what came.`

const { values } = orExplain(() =>
  parseArgs({
    options: {
      help: { type: 'boolean', short: 'h' },
      seconds: { type: 'string', default: '60' },
      seed: { type: 'string', default: String(Date.now() % 1_000_000) },
      only: { type: 'string' },
      json: { type: 'boolean' },
      url: { type: 'string' },
      key: { type: 'string' },
      'operator-key': { type: 'string' },
    },
  }),
)
const seed = Number(values.seed)
const say = values.json ? console.error : console.log

if (values.help) console.log(help)
else process.exitCode = await main()

async function main(): Promise<number> {
  const { url, key, 'operator-key': operatorKey } = values
  if (url && key) return fuzz({ url, key, operatorKey })
  say('Starting a service with a simulated host…')
  await using instance = await Instance.start({}, ['--no-tour', '--simulated', '1'])
  const { base_url, api_key, operator_key } = instance.local
  const controlPlane = instance.process('control plane')!.pid
  const faults = await fuzz({ url: base_url, key: api_key, operatorKey: operator_key }, controlPlane)
  if (instance.process('control plane')?.pid === controlPlane) return faults
  say('! the control plane is another process than before: it crashed')
  return 1
}

async function fuzz(target: Target, pid?: number): Promise<number> {
  const run = await Fuzz.begin(target, seed)
  if (values.only !== undefined) return again(run, Number(values.only))
  say(`seed ${seed}`)
  const before = pid && sizeOf(pid)
  const enough = AbortSignal.timeout(Number(values.seconds) * 1_000)
  const progress = setInterval(() => {
    const { inputs, faults } = run.tally
    say(`${inputs} inputs, ${faults.length} faults${pid ? `, control plane ${sizeOf(pid).memoryMiB} MiB` : ''}`)
  }, 5_000)
  await run.run(Infinity, enough)
  clearInterval(progress)
  const left = [...(await run.alive()), ...(await run.end())]
  tell(run, left, { before, after: pid && sizeOf(pid) })
  return run.tally.faults.length + left.length === 0 ? 0 : 1
}

function tell({ tally }: Fuzz, left: string[], controlPlane: object): void {
  const { faults, ...counts } = tally
  for (const { at, input, why } of faults) {
    const began = JSON.stringify(input.bytes.toString('latin1').split('\n', 1)[0]!.slice(0, 80))
    say(`! --seed ${seed} --only ${at} (${input.kind} ${began}): ${why.join('; ').slice(0, 500)}`)
  }
  for (const one of left) say(`! ${one}`)
  const told = faults.map(({ at, input, why }) => ({ at, kind: input.kind, why }))
  const whole = { seed, seconds: Number(values.seconds), ...counts, controlPlane, faults: told, left }
  if (values.json) return void console.log(JSON.stringify(whole))
  console.log(`\n${tally.inputs} inputs in ${values.seconds} s, ${faults.length} faults`)
  console.table({ ...controlPlane })
  console.table(tally.byStatus)
  console.table(tally.byKind)
}

async function again(run: Fuzz, at: number): Promise<number> {
  const { input, outcome, why } = await run.try(at)
  const bytes = input.bytes.toString('latin1').replaceAll(/svc_(sk|op)_\w{20,}/g, 'svc_$1_…')
  console.log(JSON.stringify({ ...input, bytes, outcome, why }, null, 2))
  await run.end()
  return why.length === 0 ? 0 : 1
}

/** Memory and open files of a process. */
function sizeOf(pid: number): { memoryMiB: number; openFiles: number } {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  return {
    memoryMiB: Math.round(Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1_024),
    openFiles: readdirSync(`/proc/${pid}/fd`).length,
  }
}
