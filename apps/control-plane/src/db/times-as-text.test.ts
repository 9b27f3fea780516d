// Guarantee: a timestamp reads the same with and without a Date in between.
import pg from 'pg'
import { expect, test } from 'vitest'
import { rfc3339, timesAsText } from './times-as-text.ts'

const { TIMESTAMPTZ, INT8, UUID } = pg.types.builtins

test.each([
  '2026-11-23 01:46:25.314159+00',
  '2026-11-23 01:46:25.3149999+00',
  '2026-11-23 01:46:25.31+00',
  '2026-11-23 01:46:25.3+00',
  '2026-11-23 01:46:25+00',
  '1999-12-31 23:59:59.999999+00',
  '2026-11-23 03:16:25.314159+01:30',
  '2026-11-22 20:46:25-05',
  '2026-11-23 02:46:25.5+01',
  '12026-11-23 01:46:25.314159+00',
  '0044-03-15 12:00:00+00 BC',
])('%s', (text) => {
  expect(rfc3339(text)).toBe((pg.types.getTypeParser(TIMESTAMPTZ)(text) as Date).toISOString())
})

test('other types are read as usual', () => {
  for (const oid of [INT8, UUID]) expect(timesAsText.getTypeParser(oid)).toBe(pg.types.getTypeParser(oid))
})
