// Runs the steps of a check or a build side by side and says how each went. Knows no tool.
import { availableParallelism } from 'node:os'
import { finish } from '../ground/processes.ts'

export interface Step {
  name: string
  /** A program and its arguments, run at the root of the repository. */
  command: readonly [string, ...string[]]
  /** What to do when it fails. */
  remedy: string
}

export interface Outcome {
  name: string
  ok: boolean
  duration_ms: number
  output: string
  remedy: string | null
}

/** Runs the steps, one per processor at a time; answers their outcomes in the given order. */
export async function runSteps(steps: readonly Step[], said: (outcome: Outcome) => void): Promise<Outcome[]> {
  const outcomes: Outcome[] = []
  const waiting = steps.entries()
  const work = async () => {
    for (const [at, step] of waiting) {
      outcomes[at] = await runStep(step)
      said(outcomes[at])
    }
  }
  await Promise.all(Array.from({ length: availableParallelism() }, work))
  return outcomes
}

async function runStep({ name, command: [program, ...args], remedy }: Step): Promise<Outcome> {
  const began = performance.now()
  const { code, stdout, stderr } = await finish(program, args, { env: environment() })
  const ok = code === 0
  const output = [stdout, stderr]
    .map((text) => text.trim())
    .join('\n')
    .trim()
  return { name, ok, duration_ms: Math.round(performance.now() - began), output, remedy: ok ? null : remedy }
}

/** Tools that neither ask the network nor leave a process behind. */
function environment(): Record<string, string | undefined> {
  const quiet = { TURBO_TELEMETRY_DISABLED: '1', TURBO_NO_UPDATE_NOTIFIER: '1', DO_NOT_TRACK: '1', CI: '1' }
  return { ...process.env, ...quiet, npm_config_loglevel: 'error' }
}

/** One line for the person who watches. */
export const lineOf = ({ name, ok, duration_ms }: Outcome): string =>
  `${ok ? '✓' : '✗'} ${name.padEnd(14)} ${(duration_ms / 1_000).toFixed(1).padStart(5)} s`
