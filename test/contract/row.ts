// What a row of the table is. Knows no route.
import type { Context } from './context.ts'

/** A sentence of the contract that anybody with two keys can check. */
export interface Checked {
  id: string
  /** As it stands in the contract. */
  sentence: string
  check(context: Context): Promise<void>
  /** It takes a minute and next to no work: runs beside the others, if there is time. A quick test proves it otherwise. */
  slow?: { provedBy: TestName }
}

/** A sentence that needs more than two keys to be seen. */
export interface Unseen {
  id: string
  sentence: string
  needs: string
  provedBy: TestName
}

/** The test that proves a row: its file, and its name or the beginning of it. */
export type TestName = [file: string, name: string]

export type Row = Checked | Unseen

export interface Chapter {
  title: string
  rows: Row[]
}
