// Reads the reason from the log of a process that did not start. Knows the form of a log line, and no process.
import { readFileSync } from 'node:fs'

interface LogLine {
  level: number
  time: string
  msg: string
  why?: string
  err?: { message?: string }
}

/** The last warning or error that was logged since then. */
export function lastWarning(logFile: string, since: Date): string | undefined {
  const lines = readFileSync(logFile, 'utf8').split('\n').map(asLogLine)
  const last = lines.findLast((line) => line && line.level >= 40 && new Date(line.time) >= since)
  return last && [last.msg, last.why ?? last.err?.message].filter(Boolean).join(': ')
}

function asLogLine(text: string): LogLine | undefined {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
