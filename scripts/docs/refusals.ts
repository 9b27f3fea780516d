// The page of refusals, from the contract's table.
import { STATUS_CODES } from 'node:http'
import { factsOf, refusalCode } from '@dormouse/contract'
import { code, head, table } from './markdown.ts'

const columns = ['code', 'status', 'Retry-After', 'what happened', 'what to do', 'fields']

export function refusalsPage(): string {
  const rows = refusalCode.options.map((name) => [name, factsOf(name)] as const)
  const direct = rows
    .filter(([, row]) => !row.internalOnly)
    .map(([name, row]) => [
      code(name),
      `${row.status} ${STATUS_CODES[row.status]}`,
      row.retryAfterSecs === undefined || row.status === 504
        ? ''
        : `${row.retryAfterSecs}${row.spreads ? `–${2 * row.retryAfterSecs}` : ''} s`,
      row.what,
      row.next ?? '',
      (row.fields ?? []).map(code).join(', '),
    ])
  const causes = rows.filter(([, row]) => row.internalOnly).map(([name, row]) => [code(name), row.what, row.next ?? ''])
  return [
    head('Refusals', '`packages/contract/src/refusals.ts`'),
    'These are all the errors that the API returns. Each response is an RFC 9457 problem. Programs act on its `code` and on',
    'the fields beside it. Its `detail` is for people: what happened, then what to do.\n',
    'After 503 or 504, you can safely send exactly the same request again. `Retry-After` says when.\n',
    `${table(columns, direct)}\n`,
    '## Why an operation failed\n',
    'No response has one of these codes itself. They are the `error_code` of a failed operation, and the `cause_code` of the',
    '409 `operation_failed` that a waiting request (`?wait=true`) gets. An operation can fail with a code from above, too.\n',
    `${table(['code', 'what happened', 'what to do'], causes)}\n`,
  ].join('\n')
}
