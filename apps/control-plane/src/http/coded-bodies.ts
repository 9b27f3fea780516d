// Refuses headers of a write that it would have to ignore: a body that is compressed or a part, a condition, a misspelt key. Knows
// no route.
import type { IncomingHttpHeaders } from 'node:http'
import { refuse, refuseField } from '@dormouse/contract'
import type { App } from './app.ts'

/** After the credential was checked, and before a body is requested or read. */
export function refuseCodedBodies(app: App): void {
  app.addHook('preParsing', async ({ raw: { method, headers } }, reply) => {
    if (method === 'GET' || method === 'HEAD') return
    if (isCoded(headers)) {
      reply.header('accept-encoding', 'identity')
      refuse('unsupported_coding')
    }
    if (headers['content-range'] !== undefined)
      refuseField(
        'Content-Range',
        'must not be sent; send the whole body, or send parts to an upload with `Upload-Offset`',
      )
    for (const [name, shown] of conditions)
      if (headers[name] !== undefined) refuseField(shown, 'must not be sent; conditional writes are not supported')
    const misspelt = Object.keys(headers).find((name) => keyLike.test(name) && name !== 'idempotency-key')
    if (misspelt) refuseField(misspelt, 'is not supported; send `Idempotency-Key`')
  })
}

const conditions = [
  ['if-match', 'If-Match'],
  ['if-none-match', 'If-None-Match'],
  ['if-modified-since', 'If-Modified-Since'],
  ['if-unmodified-since', 'If-Unmodified-Since'],
  ['if-range', 'If-Range'],
] as const
const keyLike = /^(x[-_])?idempoten(cy|t)[-_]?keys?$/

/** What each of these lists leaves the bytes as they are. */
const plain = {
  'content-encoding': new Set(['', 'identity']),
  'content-transfer-encoding': new Set(['', 'identity', 'binary', '8bit', '7bit']),
  'transfer-encoding': new Set(['chunked']),
}

const isCoded = (headers: IncomingHttpHeaders): boolean =>
  Object.entries(plain).some(([name, codings]) => wordsOf(headers[name]).some((word) => !codings.has(word)))

const wordsOf = (header: string | string[] | undefined): string[] =>
  header === undefined
    ? []
    : [header]
        .flat()
        .join(',')
        .split(',')
        .map((word) => word.trim().toLowerCase())
