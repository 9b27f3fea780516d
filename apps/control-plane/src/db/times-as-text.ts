// Reads `timestamptz` as the text that the API shows, without a Date in between: for rows that are sent on as JSON. Knows no
// table.
import pg from 'pg'

const { TIMESTAMPTZ } = pg.types.builtins
const toDate = pg.types.getTypeParser(TIMESTAMPTZ) as (text: string) => Date

/** For a query's `types`: timestamps as RFC 3339 text in UTC with milliseconds, everything else as usual. */
export const timesAsText = {
  getTypeParser: ((oid: number, format?: 'text') =>
    oid === TIMESTAMPTZ ? rfc3339 : pg.types.getTypeParser(oid, format)) as typeof pg.types.getTypeParser,
}

/** `2026-11-23 01:46:25.314159+00` as `2026-11-23T01:46:25.314Z`. */
export function rfc3339(text: string): string {
  const end = text.length - 3
  // A session in another time zone, or a year of five digits.
  if (text[10] !== ' ' || text[19] === ':' || !text.endsWith('+00')) return toDate(text).toISOString()
  return `${text.slice(0, 10)}T${text.slice(11, 19)}.${text.slice(20, Math.min(end, 23)).padEnd(3, '0')}Z`
}
