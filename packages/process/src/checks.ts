// What a program looks at before it is used, as rows for a person or one document for a program. Knows no check.
import { StartError } from './start-failures.ts'

export interface Finding {
  result: 'ok' | 'warning' | 'failed'
  detail: string
  /** What to do, unless all is well. */
  remedy?: string
}

export interface Check {
  name: string
  /** Another check without which this one has nothing to look at. */
  needs?: string
  /** What it finds; nothing if it does not apply. A thrown StartError is a failure with its sentence. */
  look(): Promise<Finding | undefined>
}

export const ok = (detail: string): Finding => ({ result: 'ok', detail })
export const warning = (detail: string, remedy: string): Finding => ({ result: 'warning', detail, remedy })
export const failed = (detail: string, remedy: string): Finding => ({ result: 'failed', detail, remedy })

const marks = { ok: 'ok     ', warning: 'warning', failed: 'FAILED ' }

/** Runs them one after another and writes each as it is found. Returns whether none failed. */
export async function runChecks(checks: readonly Check[], isJson: boolean, write: (line: string) => void) {
  const found: ({ name: string } & Finding)[] = []
  const width = Math.max(...checks.map(({ name }) => name.length))
  const lost = new Set<string>()
  for (const { name, needs, look } of checks) {
    if (needs && lost.has(needs)) continue
    const finding = await look().catch(failureOf)
    if (!finding) continue
    found.push({ name, ...finding })
    if (finding.result === 'failed') lost.add(name)
    if (isJson) continue
    write(`${marks[finding.result]}  ${name.padEnd(width)}  ${finding.detail}`)
    if (finding.remedy) write(`${' '.repeat(width + 11)}→ ${finding.remedy}`)
  }
  const isWell = found.every(({ result }) => result !== 'failed')
  if (isJson) write(JSON.stringify({ ok: isWell, checks: found }))
  return isWell
}

/** A sentence of ours says what happened, then what to do. */
function failureOf(error: unknown): Finding {
  if (!(error instanceof StartError)) throw error
  const at = error.message.indexOf('; ')
  return at < 0 ? failed(error.message, 'correct it') : failed(error.message.slice(0, at), error.message.slice(at + 2))
}
