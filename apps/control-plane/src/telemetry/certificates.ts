// Metrics of certificates: until when those are valid that this service shows its clients, and the database's. They are read
// from the connection, so whatever ends TLS in front of the service need not be known.
import { isIP, type Socket } from 'node:net'
import { connect, TLSSocket } from 'node:tls'
import type { Log } from '@dormouse/process'
import { Gauge, type Registry } from 'prom-client'
import type { Pool } from '../db/pool.ts'
import { Refreshed } from './refreshed.ts'

const maxAgeMs = 600_000
const timeoutMs = 5_000

interface Certificates {
  registry: Registry
  pool: Pool
  /** Base URLs, by what they are for. Those without TLS have no certificate. */
  urls: Readonly<Record<string, string | undefined>>
  log: Log
}

export function certificateMetrics({ registry, pool, urls, log }: Certificates): Refreshed {
  const gauge = new Gauge({
    name: 'dormouse_certificate_end_timestamp_seconds',
    help: 'Until when the certificate is valid, by what it is for: public, page or database',
    labelNames: ['for'],
    registers: [registry],
  })
  const show = (what: string, socket: TLSSocket) => {
    const { valid_to: ends } = socket.getPeerCertificate()
    if (ends) gauge.set({ for: what }, Date.parse(ends) / 1_000)
  }
  pool.on('connect', (client) => {
    const { stream } = (client as typeof client & { connection: { stream: Socket } }).connection
    if (stream instanceof TLSSocket) show('database', stream)
  })
  const read = async () => {
    const all = Object.entries(urls).filter(([, url]) => url?.startsWith('https:'))
    const each = all.map(async ([what, url]) => {
      using socket = await opened(new URL(url!))
      show(what, socket)
    })
    const failed = (await Promise.allSettled(each)).find(({ status }) => status === 'rejected')
    if (failed) throw (failed as PromiseRejectedResult).reason
  }
  return new Refreshed({ what: 'certificates', maxAgeMs, read, log })
}

/** Accepts every certificate: one that has ended is shown, too, and nothing is sent. */
function opened({ hostname, port }: URL): Promise<TLSSocket & Disposable> {
  const host = hostname.replace(/^\[|\]$/g, '')
  const { promise, resolve, reject } = Promise.withResolvers<TLSSocket & Disposable>()
  const options = {
    host,
    port: Number(port || 443),
    rejectUnauthorized: false,
    ...(isIP(host) ? {} : { servername: host }),
  }
  const socket = connect(options, () => resolve(Object.assign(socket, { [Symbol.dispose]: () => socket.destroy() })))
  socket.on('error', reject)
  socket.setTimeout(timeoutMs, () => socket.destroy(new Error(`no TLS from ${host} within ${timeoutMs} ms`)))
  return promise
}
