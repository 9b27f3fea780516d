// Refuses bodies that are not what they stand for: compressed, or a part of something. Knows no route.
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
      refuseField('Content-Range', 'must not be sent; a body is a whole, and an upload takes parts by `Upload-Offset`')
  })
}

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
