// Waits until a control plane is ready. While its log reports a running migration, the wait goes on.
import { readFileSync } from 'node:fs'
import { type Say, waitFor } from '../testbed/processes.ts'
import { apiPollMs } from './api.ts'
import { lastWarning } from './last-warning.ts'

export interface ReadinessOptions {
  isReady(): Promise<boolean>
  logFile: string
  say: Say
  /** How long it may take, counted again after each report of a migration. */
  timeoutMs?: number
}

/** Fields of the log lines that a migration writes while it runs, or while it waits for a lock or for another migrator. */
const progress = /"waitsFor":|"waitedFor":|"migrator":"another"/g

export async function waitUntilReady(options: ReadinessOptions): Promise<void> {
  const { isReady, logFile, say, timeoutMs = 30_000 } = options
  const since = new Date()
  for (let seen = reportsIn(logFile); ; ) {
    if (await waitFor(isReady, timeoutMs, apiPollMs)) return
    const now = reportsIn(logFile)
    if (now === seen) throw new Error(notReady(timeoutMs, lastWarning(logFile, since), logFile))
    seen = now
    say(`the control plane is still migrating its database; log: ${logFile}`)
  }
}

const notReady = (timeoutMs: number, why: string | undefined, logFile: string) =>
  `the control plane was not ready within ${timeoutMs / 1_000} s${why ? `: ${why}` : ''}; log: ${logFile}`

/** A migration that starts over and over writes no such line. */
const reportsIn = (logFile: string): number => readFileSync(logFile, 'utf8').match(progress)?.length ?? 0
