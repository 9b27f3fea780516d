// `npm run fuzz`: says what nobody should, for a while, and counts what came back. A process that ends, and whatever its
// mode calls a fault, is told with the words that repeat it: the seed repeats a run, the number one input.
import { readdirSync, readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { readOrExit, UsageError } from '@dormouse/process/arguments'
import { smallest } from './dice.ts'
import type { Mode, Subject, Target } from './mode.ts'
import { modes } from './modes/all.ts'
import { Fuzz } from './run.ts'

const help = `npm run fuzz -- [--mode NAME] [--seconds 60] [--seed N] [--only AT] [--json]
                [--url http://… --key svc_sk_… [--operator-key svc_op_…]]

Without --mode all modes run, one after another, and share the seconds:
${modes.map(({ name, about }) => `  ${name.padEnd(14)} ${about}`).join('\n')}

Each mode starts what it misuses. With --url the modes that can misuse a service that runs already do so: their own
desktops and hosts are made and removed, and they touch no other.
--mode NAME --only AT with the same --seed sends that one input again and shows what came; if it fails, the
smallest input that fails too.`

// What a timer can hold.
const longestSecs = 2_000_000
/** How long to look for a smaller input that fails. */
const shrinkMs = 30_000

const { values, seconds, seed, only, chosen } = readOrExit(() => {
  const { values } = parseArgs({
    options: {
      help: { type: 'boolean', short: 'h' },
      mode: { type: 'string' },
      seconds: { type: 'string', default: '60' },
      seed: { type: 'string', default: String(Date.now() % 1_000_000) },
      only: { type: 'string' },
      json: { type: 'boolean' },
      url: { type: 'string' },
      key: { type: 'string' },
      'operator-key': { type: 'string' },
    },
  })
  const seconds = wholeNumber('--seconds', values.seconds, 1, longestSecs)
  const seed = wholeNumber('--seed', values.seed, 0)
  const only = values.only === undefined ? undefined : wholeNumber('--only', values.only, 0)
  return { values, seconds, seed, only, chosen: choose(values) }
})
const target = targetOf(values)
const say = values.json ? console.error : console.log

if (values.help) console.log(help)
else process.exitCode = await main()

interface Told {
  mode: string
  inputs: number
  faults: object[]
  /** What is wrong with the subject as a whole. */
  left: string[]
}

function choose({ mode, only, url }: { mode?: string; only?: string; url?: string }): readonly Mode[] {
  if (mode === undefined && only !== undefined)
    throw new UsageError('--only needs --mode: each mode counts its own inputs')
  const named = modes.filter(({ name }) => mode === undefined || name === mode)
  if (named.length === 0) {
    throw new UsageError(`--mode is "${mode}"; it must be one of ${modes.map(({ name }) => name).join(', ')}`)
  }
  const able = named.filter(({ remote }) => remote || !url)
  if (able.length === 0) throw new UsageError(`--mode ${mode} starts what it misuses; leave --url away`)
  return able
}

function wholeNumber(name: string, text: string, min: number, max = Number.MAX_SAFE_INTEGER): number {
  const value = Number(text)
  if (/^\d+$/.test(text) && value >= min && value <= max) return value
  throw new UsageError(`${name} is "${text}"; it must be a whole number from ${min} to ${max}`)
}

function targetOf(words: typeof values): Target | undefined {
  const { url, key, 'operator-key': operatorKey } = words
  return url && key ? { url, key, operatorKey } : undefined
}

async function main(): Promise<number> {
  const told: Told[] = []
  for (const mode of chosen) {
    await using subject = await mode.begin({ seed, target, say })
    if (only !== undefined) return await again(subject, only)
    told.push(await fuzz(mode, subject))
  }
  if (values.json) console.log(JSON.stringify({ seed, modes: told }))
  return told.every(({ faults, left }) => faults.length + left.length === 0) ? 0 : 1
}

async function fuzz({ name }: Mode, subject: Subject): Promise<Told> {
  const run = new Fuzz(subject, seed)
  const share = seconds / chosen.length
  say(`${name}: seed ${seed}, ${share} s`)
  const before = sizeOf(subject.pid)
  const progress = setInterval(() => {
    const { inputs, faults } = run.tally
    const size = sizeOf(subject.pid)
    say(`${name}: ${inputs} inputs, ${faults.length} faults${size ? `, ${size.memoryMiB} MiB` : ''}`)
  }, 5_000)
  await run.run(Infinity, AbortSignal.timeout(Math.ceil(share * 1_000))).finally(() => clearInterval(progress))
  const left = await subject.verdict()
  const told = { mode: name, seconds: share, ...run.tally, size: { before, after: sizeOf(subject.pid) }, left }
  tell(told)
  return told
}

function tell(told: Told & Fuzz['tally'] & { seconds: number; size: object }): void {
  const { mode, inputs, faults, left, byAnswer, byKind, size, seconds } = told
  for (const { at, kind, why } of faults) {
    say(`! --mode ${mode} --seed ${seed} --only ${at} (${kind}): ${why.join('; ').slice(0, 500)}`)
  }
  for (const one of left) say(`! ${mode}: ${one}`)
  if (!values.json) for (const table of [size, byAnswer, byKind]) console.table(table)
  say(`${mode}: ${inputs} inputs in ${seconds} s, ${faults.length} faults`)
}

/** A process that has ended fails at any input: the one that ended it is the smallest that can be found. */
async function again(subject: Subject, at: number): Promise<number> {
  let tries = 0
  const trial = await smallest({ seed, at, timeoutMs: shrinkMs }, async (dice) => {
    const gone = tries++ > 0 && subject.pid !== undefined && sizeOf(subject.pid) === undefined
    const result = gone ? undefined : await subject.try(dice)
    return { failed: (result?.why.length ?? 0) > 0, result }
  })
  const left = await subject.verdict()
  console.log(JSON.stringify({ ...trial?.shown, why: trial?.why, tries, left }, null, 2))
  return (trial?.why.length ?? 0) + left.length === 0 ? 0 : 1
}

/** Memory and open files of a process that is there. */
function sizeOf(pid: number | undefined): { memoryMiB: number; openFiles: number } | undefined {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8')
    const memoryMiB = Math.round(Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1_024)
    return { memoryMiB, openFiles: readdirSync(`/proc/${pid}/fd`).length }
  } catch {
    return undefined
  }
}
