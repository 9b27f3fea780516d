// The page of refusals, from the contract's table.
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
    'Every failure a caller can be told of. It is answered as an RFC 9457 problem whose `code` is the first column; the',
    '`detail` is written where it happens. 503 and 504 mean that the exact request is safe to send again. A code in an',
    'operation’s failure reads as 409 `operation_failed` to whoever waits for it.\n',
    `${table(['code', 'status', 'Retry-After', 'what it means'], rows)}\n`,
  ].join('\n')
}
