// Runs rows one after the other against a place, and counts. Knows neither the rows nor how they are shown.
import type { Context } from './context.ts'
import type { Chapter, Row } from './row.ts'

type Judgement = Pick<Outcome, 'verdict' | 'note'>

export interface Outcome {
  chapter: string
  id: string
  sentence: string
  verdict: 'passed' | 'failed' | 'not checked here'
  /** What was expected and what came; or what the row needs, and the test that proves it. */
  note?: string
}

/** Judges each row in turn and hands its outcome out at once. Slow ones begin at once, `beside` the others. */
export async function* run(chapters: Chapter[], context: Context, beside: Context): AsyncGenerator<Outcome> {
  const begun = new Map<string, Promise<Judgement>>()
  for (const row of chapters.flatMap(({ rows }) => rows)) if (isSlow(row)) begun.set(row.id, judge(row, beside))
  for (const { title: chapter, rows } of chapters)
    for (const row of rows) {
      const { id, sentence } = row
      yield { chapter, id, sentence, ...(await (begun.get(id) ?? judge(row, context))) }
    }
}

const isSlow = (row: Row): boolean => 'slow' in row && row.slow !== undefined

async function judge(row: Row, context: Context): Promise<Judgement> {
  if ('needs' in row) return { verdict: 'not checked here', note: `needs ${row.needs}; ${row.provedBy.join(': ')}` }
  try {
    await row.check(context)
    return { verdict: 'passed' }
  } catch (error) {
    return { verdict: 'failed', note: error instanceof Error ? error.message : String(error) }
  }
}
