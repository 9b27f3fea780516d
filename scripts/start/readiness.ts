// Waits for a control plane that was started. One that migrates its database is waited for as long as its log says so.
import { readFileSync } from 'node:fs'
import type { Say } from '../ground/processes.ts'
import { until } from './api.ts'

export interface ReadinessOptions {
  isReady(): Promise<boolean>
  logFile: string
  say: Say
  /** How long it may take without a word of a migration. */
  patienceMs?: number
}

const ofMigrations = /a migration is under way|did not get its lock in time|another control plane migrates/g

export async function untilReady(options: ReadinessOptions): Promise<void> {
  const { isReady, logFile, say, patienceMs = 30_000 } = options
  for (let heard = wordsOf(logFile); ; ) {
    if (await until(isReady, patienceMs, () => '').catch(() => false)) return
    const now = wordsOf(logFile)
    if (now === heard) throw new Error(`the control plane did not become ready; its log: ${logFile}`)
    heard = now
    say(`the control plane still migrates its database; its log: ${logFile}`)
  }
}

/** How often the log speaks of a migration that goes on. One that begins again and again says nothing of the kind. */
const wordsOf = (logFile: string): number => readFileSync(logFile, 'utf8').match(ofMigrations)?.length ?? 0
