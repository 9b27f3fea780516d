// Why a request had no response: what the system's error means, in words, and what to do about it. Pure.

/** `tls`: one end does not use TLS. */
export type Unanswered =
  | 'bad_port'
  | 'not_http'
  | 'untrusted'
  | 'expired'
  | 'wrong_name'
  | 'tls'
  | 'unknown_host'
  | 'refused'
  | 'unreachable'
  | 'cut'

export interface Reason {
  kind: Unanswered
  /** What happened, with the system's own words. */
  text: string
}

const kinds: Record<Exclude<Unanswered, 'cut'>, RegExp> = {
  bad_port: /^bad port$/,
  // Assertions are of Node's `fetch`, about statuses that no request of ours can cause.
  not_http: /^ERR_ASSERTION$|^UND_ERR_HEADERS_OVERFLOW$|^bad upgrade$/,
  untrusted: /^(DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_\w+|CERT_UNTRUSTED|CERT_\w*CHAIN\w*)$/,
  expired: /^CERT_(HAS_EXPIRED|NOT_YET_VALID)$/,
  wrong_name: /^(ERR_TLS_CERT_ALTNAME_INVALID|HOSTNAME_MISMATCH)$/,
  tls: /^(ERR_SSL_\w+|EPROTO|HPE_INVALID_\w+)$|^Response does not match the HTTP/,
  unknown_host: /^(ENOTFOUND|EAI_\w+)$/,
  refused: /^ECONNREFUSED$/,
  unreachable: /^(ETIMEDOUT|UND_ERR_CONNECT_TIMEOUT|EHOSTUNREACH|ENETUNREACH|EHOSTDOWN|ENETDOWN)$/,
}

/** What was found, and what to do. */
const sentences: Record<Exclude<Unanswered, 'cut'>, (url: URL) => string> = {
  bad_port: ({ port }) => `\`fetch\` never connects to port ${port}, which is another protocol’s; use another port`,
  not_http: () => 'what it sent is not a response to this request; check that baseUrl is the service’s address',
  untrusted: () =>
    'this machine does not trust its certificate; for a CA of your own, set NODE_EXTRA_CA_CERTS to the file of its certificate',
  expired: () => 'its certificate is not valid at this time; renew it, or set the clock of this machine',
  wrong_name: () => 'its certificate is for another name; use a name that the certificate has',
  tls: ({ protocol }) =>
    protocol === 'https:'
      ? 'it does not speak TLS on this port; use http://, or the port of its TLS'
      : 'it does not speak plain HTTP on this port; use https://, or the port of its plain HTTP',
  unknown_host: ({ hostname }) => `there is no host ${hostname} in the DNS; check the name`,
  refused: () => 'nothing listens there; check that the service runs, and the port',
  unreachable: () => 'the host does not respond; check the address, the network and firewalls',
}

/** Whether the next attempt would end in the same way. */
export const isLasting = (why: Unanswered): boolean =>
  why === 'bad_port' || why === 'untrusted' || why === 'expired' || why === 'wrong_name' || why === 'tls'

/** From the error of `fetch`, which hides the system's own in its causes. */
export function whyUnanswered(error: unknown, url: URL): Reason {
  const { code, message } = deepest(error)
  const words = message && !message.includes(code) ? `${code} ${message}`.trim() : message || code
  for (const [kind, pattern] of Object.entries(kinds) as [Exclude<Unanswered, 'cut'>, RegExp][])
    if (pattern.test(code || message) || pattern.test(message))
      return { kind, text: `${sentences[kind](url)} (${words})` }
  return { kind: 'cut', text: words }
}

/** The last cause. */
function deepest(error: unknown): { code: string; message: string } {
  if (!(error instanceof Error)) return { code: '', message: String(error) }
  if (error.cause instanceof Error) return deepest(error.cause)
  const code = 'code' in error && error.code !== undefined ? String(error.code) : ''
  // An assertion's message is several lines of source code.
  return { code, message: code === 'ERR_ASSERTION' ? '' : error.message }
}
