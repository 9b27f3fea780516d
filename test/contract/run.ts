// Runs rows one after the other against a place, and counts. Knows neither the rows nor how they are shown.
import type { Context } from './context.ts'
import type { Row } from './row.ts'

export interface Outcome {
  id: string
  sentence: string
  verdict: 'passed' | 'failed' | 'not checked here'
  /** What was expected and what came; or what the row needs, and the test that proves it. */
  note?: string
}

/** Judges each row in turn and hands its outcome out at once. */
export async function* run(rows: Row[], context: Context): AsyncGenerator<Outcome> {
  for (const row of rows) yield { id: row.id, sentence: row.sentence, ...(await judge(row, context)) }
}

async function judge(row: Row, context: Context): Promise<Pick<Outcome, 'verdict' | 'note'>> {
  if ('needs' in row) return { verdict: 'not checked here', note: `needs ${row.needs}; ${row.provedBy.join(': ')}` }
  try {
    await row.check(context)
    return { verdict: 'passed' }
  } catch (error) {
    return { verdict: 'failed', note: error instanceof Error ? error.message : String(error) }
  }
}
