// Generates docs/refusals.md from the contract's table.
import { STATUS_CODES } from 'node:http'
import { type RefusalCode, refusals } from '@dormouse/contract'
import { code, head, table } from './markdown.ts'

type Row = { status: number; retryAfterSecs?: number; what: string }

export function refusalsPage(): string {
  const rows = (Object.entries(refusals) as [RefusalCode, Row][]).map(([name, { status, retryAfterSecs, what }]) => [
    code(name),
    `${status} ${STATUS_CODES[status]}`,
    retryAfterSecs === undefined || status === 504 ? '' : `${retryAfterSecs} s`,
    what,
  ])
  return [
    head('Refusals', '`packages/contract/src/problems.ts`'),
    'These are all the errors that the API returns. Each response is an RFC 9457 problem. Its `code` is in the first column;',
    'its `detail` says what happened, and what to do.\n',
    '- After 503 or 504, you can safely send exactly the same request again. `Retry-After` says when.',
    '- A failed operation has one of these codes, too. A request that waits for it (`?wait=true`) gets 409',
    '  `operation_failed`; operators see the code with `dormouse admin operation <id>`.\n',
    `${table(['code', 'status', 'Retry-After', 'what it means'], rows)}\n`,
  ].join('\n')
}
