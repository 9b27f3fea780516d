// Whether a machine reaches the control plane: TCP from that machine, with its resolver and routes; TLS and HTTP run here, over
// that connection, with the authorities that an agent there trusts. Nothing is installed for it.
import { type ClientRequestArgs, request as httpRequest } from 'node:http'
import type { Duplex } from 'node:stream'
import { connect as connectTls, rootCertificates } from 'node:tls'
import type { Root } from './root.ts'
import type { Session } from './session.ts'

export interface Reach {
  url: string
  result: 'ok' | 'warning' | 'failed'
  found: string
  next?: string
}

const timeoutMs = 15_000
/** As an agent dials; `packages/contract/src/agents.ts`. */
const linkPath = '/agent/v1/link'
const linkSubprotocol = 'dormouse.link.proof'
const maxCauseChars = 160

/** Where scripts/install-agent looks for the certificate of a private authority. */
const authorityFile = '/etc/dormouse/control-plane-ca.pem'

/** The certificates that an agent there trusts besides Node's own; empty for none. What this program trusts is another matter. */
export async function trustOf(root: Root): Promise<string> {
  const script = `file=$(sed -n 's/^NODE_EXTRA_CA_CERTS=//p' /etc/dormouse/agent.env 2>/dev/null | tail -n 1)
cat "\${file:-$1}" 2>/dev/null || true`
  return (await root.run(script, [authorityFile])).stdout
}

/** Requests an agent's link, without a credential: the server must be a control plane, and let WebSockets through. */
export async function tryReach(
  session: Pick<Session, 'forward'>,
  url: string,
  { allowHttp, trust }: { allowHttp: boolean; trust: string },
): Promise<Reach> {
  const { protocol, hostname, port } = new URL(url)
  const isTls = protocol === 'https:'
  const host = hostname.replace(/^\[|\]$/g, '')
  const number = Number(port) || (isTls ? 443 : 80)
  if (!isTls && !allowHttp && !/^(localhost|127\.\d+\.\d+\.\d+|::1)$/.test(host))
    return failed(
      url,
      'plain HTTP to another machine',
      'use https://, or --allow-http on a network of trusted machines',
    )
  let raw: Duplex
  try {
    raw = await session.forward(host, number)
  } catch (error) {
    const why = (error as Error).message.slice(0, maxCauseChars)
    if (/administratively prohibited|open failed.*prohibited/i.test(why) || (error as { reason?: number }).reason === 1)
      return {
        url,
        result: 'warning',
        found: 'not checked: its SSH server forwards no connections',
        next: 'the installation waits until the host is connected, and says so if it is not',
      }
    return failed(url, `no TCP connection: ${why}`, 'check the name, the route and the firewall from that host')
  }
  try {
    return await within(answer(isTls ? await secured(raw, host, trust) : raw, url))
  } catch (error) {
    const why = (error as Error).message.slice(0, maxCauseChars)
    const next = unknownAuthority.test(String((error as Error).cause))
      ? `put the certificate of its authority on that host, in ${authorityFile}`
      : 'check the certificate and the proxy'
    return failed(url, `${isTls ? 'TCP works, and then' : 'HTTP'}: ${why}`, next)
  } finally {
    raw.destroy()
  }
}

const unknownAuthority = /SELF_SIGNED|UNABLE_TO_(GET_ISSUER|VERIFY_LEAF)/

const failed = (url: string, found: string, next: string): Reach => ({ url, result: 'failed', found, next })

function secured(raw: Duplex, host: string, trust: string): Promise<Duplex> {
  return new Promise((resolve, reject) => {
    const ca = [...rootCertificates, ...(trust ? [trust] : [])]
    const socket = connectTls({ socket: raw, servername: /^[\d.]+$|:/.test(host) ? '' : host, host, ca })
    socket.once('secureConnect', () => resolve(socket)).once('error', (error) => reject(named('TLS', error)))
  })
}

/** The upgrade succeeds: the control plane asks for the credential on the link itself. */
function answer(socket: Duplex, url: string): Promise<Reach> {
  const base = new URL(url)
  return new Promise((resolve, reject) => {
    const options: ClientRequestArgs = {
      createConnection: () => socket as never,
      host: base.hostname,
      path: `${base.pathname.replace(/\/+$/, '')}${linkPath}`,
      headers: {
        host: base.host,
        connection: 'Upgrade',
        upgrade: 'websocket',
        'sec-websocket-version': '13',
        'sec-websocket-protocol': linkSubprotocol,
        'sec-websocket-key': Buffer.alloc(16, 'dormouse').toString('base64'),
      },
    }
    const request = httpRequest(options)
    request.on('upgrade', (_response, opened) => {
      opened.destroy()
      resolve({ url, result: 'ok', found: `${base.protocol === 'https:' ? 'TCP, TLS' : 'TCP'} and WebSocket work` })
    })
    request.on('response', (response) => {
      response.resume()
      resolve(judged(url, response.statusCode ?? 0, response.headers['content-type'] ?? ''))
    })
    request.on('error', (error) => reject(named('HTTP', error)))
    request.end()
  })
}

/** Without a credential, or without its subprotocol, a control plane refuses in its own form. */
function judged(url: string, status: number, type: string): Reach {
  if (type.startsWith('application/problem+json') && status < 500 && status !== 404)
    return { url, result: 'ok', found: `works; the control plane answers ${status} without a credential` }
  if (status >= 500) return failed(url, `HTTP ${status}`, 'check that a control plane runs there: curl …/readyz')
  return failed(url, `HTTP ${status} instead of a link`, 'the proxy must pass WebSockets on to a control plane')
}

const named = (what: string, error: Error & { code?: string }): Error =>
  new Error(`${what} fails: ${error.message || error.code}`, { cause: error.code })

async function within<T>(work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${timeoutMs / 1_000} s`)), timeoutMs)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}
