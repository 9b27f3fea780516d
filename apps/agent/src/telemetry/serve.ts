// Serves the metrics at an address of their own, to Prometheus. Whoever reaches the address may read them: they contain no
// secret and no id.
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Log } from '@dormouse/process'

export interface MetricsServer {
  /** The address that it listens on, with the port that the system chose if none was set; undefined if it does not listen. */
  url: string | undefined
  close(): void | Promise<void>
}

export interface MetricsAddress {
  host: string
  port: number
}

/** Begins to listen. If the address cannot be used, it logs that: a host without metrics runs desktops anyway. */
export async function serveMetrics(
  address: MetricsAddress | null,
  text: () => Promise<string>,
  log: Log,
): Promise<MetricsServer> {
  if (!address) return { url: undefined, close: () => undefined }
  const server = createServer((request, response) => {
    if (request.method !== 'GET' || request.url?.split('?', 1)[0] !== '/metrics')
      return void response.writeHead(404).end()
    text().then(
      (metrics) => response.writeHead(200, { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' }).end(metrics),
      (error) => {
        log.error({ err: error }, 'the metrics could not be read')
        response.writeHead(500).end()
      },
    )
  })
  const url = await listen(server, address).catch((error: Error) => {
    const setting = 'DORMOUSE_AGENT_METRICS_LISTEN'
    log.warn({ ...address, why: error.message, setting }, 'the metrics are not served: the address cannot be used')
    return undefined
  })
  if (url) log.debug({ url }, 'serving metrics')
  const close = () => {
    server.close()
    server.closeAllConnections()
  }
  return { url, close }
}

function listen(server: Server, { host, port }: MetricsAddress): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  server.once('error', reject)
  server.listen(port, host, () => {
    server.off('error', reject)
    server.on('error', () => undefined)
    const { port: bound } = server.address() as AddressInfo
    resolve(`http://${host.includes(':') ? `[${host}]` : host}:${bound}/metrics`)
  })
  return promise
}
