// Guarantee: the system's error codes become what happened, and never something else than happened.
import { expect, test } from 'vitest'
import { type Unanswered, whyUnanswered } from './unanswered.ts'

const coded = (code: string, message = 'words') =>
  new TypeError('fetch failed', { cause: Object.assign(new Error(message), { code }) })

test.each<[string, Unanswered]>([
  ['DEPTH_ZERO_SELF_SIGNED_CERT', 'untrusted'],
  ['SELF_SIGNED_CERT_IN_CHAIN', 'untrusted'],
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'untrusted'],
  ['UNABLE_TO_GET_ISSUER_CERT_LOCALLY', 'untrusted'],
  ['CERT_HAS_EXPIRED', 'expired'],
  ['CERT_NOT_YET_VALID', 'expired'],
  ['ERR_TLS_CERT_ALTNAME_INVALID', 'wrong_name'],
  ['ERR_SSL_WRONG_VERSION_NUMBER', 'tls'],
  ['ERR_SSL_PACKET_LENGTH_TOO_LONG', 'tls'],
  ['HPE_INVALID_CONSTANT', 'tls'],
  ['ENOTFOUND', 'unknown_host'],
  ['EAI_AGAIN', 'unknown_host'],
  ['ECONNREFUSED', 'refused'],
  ['ETIMEDOUT', 'unreachable'],
  ['UND_ERR_CONNECT_TIMEOUT', 'unreachable'],
  ['EHOSTUNREACH', 'unreachable'],
  ['UND_ERR_HEADERS_OVERFLOW', 'not_http'],
  ['ECONNRESET', 'cut'],
  ['UND_ERR_SOCKET', 'cut'],
  ['ENOMEM', 'cut'],
])('%s', (code, kind) => {
  const reason = whyUnanswered(coded(code), new URL('https://dormouse.example:8443'))
  expect(reason.kind).toBe(kind)
  expect(reason.text).toContain(`${code} words`)
})

test('several addresses that refuse are one refusal, and what is no error is said as it is', () => {
  const all = Object.assign(new AggregateError([coded('ECONNREFUSED')], ''), { code: 'ECONNREFUSED' })
  expect(whyUnanswered(new TypeError('fetch failed', { cause: all }), new URL('http://x')).kind).toBe('refused')
  expect(whyUnanswered(new TypeError('fetch failed'), new URL('http://x'))).toEqual({
    kind: 'cut',
    text: 'fetch failed',
  })
  expect(whyUnanswered('gone', new URL('http://x'))).toEqual({ kind: 'cut', text: 'gone' })
})
