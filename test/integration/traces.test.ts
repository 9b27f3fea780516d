// Guarantee: one wake is one trace, from the request over the engine's steps to the host and back; without a collector there
// is none, and nothing of it is loaded.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'

interface Span {
  service: string
  traceId: string
  spanId: string
  parentSpanId?: string
  name: string
  status: { code?: number }
}

interface Batch {
  resourceSpans: {
    resource: { attributes: { key: string; value: { stringValue?: string } }[] }
    scopeSpans: { spans: Omit<Span, 'service'>[] }[]
  }[]
}

/** A collector of OTLP over HTTP, as JSON. */
async function collector() {
  const spans: Span[] = []
  const server = createServer(async (request, response) => {
    const { resourceSpans } = (await json(request)) as Batch
    for (const { resource, scopeSpans } of resourceSpans) {
      const service = resource.attributes.find(({ key }) => key === 'service.name')?.value.stringValue ?? ''
      for (const { spans: sent } of scopeSpans) spans.push(...sent.map((span) => ({ service, ...span })))
    }
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

test('one wake is one trace with the spans of both processes, below the caller’s span', async () => {
  await using at = await collector()
  await using stack = await Stack.start({ controlPlane: { otlpUrl: at.url }, agent: { otlpUrl: at.url } })
  const { id } = await stack.desktop()
  const [traceId, callersSpan] = ['4bf92f3577b34da6a3ce929d0e0e4736', '00f067aa0ba902b7']
  const headers = { traceparent: `00-${traceId}-${callersSpan}-01` }
  await stack.api('POST', `/v1/desktops/${id}/wake?wait=true`, { headers })
  const names = [
    ['dormouse-control-plane', 'POST /v1/desktops/:id/wake'],
    ['dormouse-control-plane', 'operation wake'],
    ['dormouse-control-plane', 'step wake.run'],
    ['dormouse-control-plane', 'desktop.ensureAwake'],
    ['dormouse-agent', 'desktop.ensureAwake'],
  ] as const
  const ours = () => at.spans.filter((span) => span.traceId === traceId)
  const find = ([service, name]: (typeof names)[number]) =>
    ours().find((span) => span.service === service && span.name === name)
  await waitFor('the whole trace', () => names.every(find))
  const chain = names.map((name) => find(name)!)
  expect(chain.map(({ parentSpanId }) => parentSpanId)).toEqual([
    callersSpan,
    ...chain.slice(0, -1).map(({ spanId }) => spanId),
  ])
  expect(ours().map(({ name }) => name)).toEqual(expect.arrayContaining(['step wake.place', 'step wake.disk']))
})

test('without a traceparent the request’s id names the trace, and a failure is marked', async () => {
  await using at = await collector()
  await using stack = await Stack.start({ hosts: 0, controlPlane: { otlpUrl: at.url, wakeDeadlineMs: 1_000 } })
  const { id } = await stack.desktop()
  const { headers } = await stack.api('POST', `/v1/desktops/${id}/wake?wait=true`, {
    headers: { traceparent: 'nonsense' },
  })
  const traceId = String(headers['x-request-id']).replaceAll('-', '')
  const named = (name: string) => at.spans.find((span) => span.traceId === traceId && span.name === name)
  await waitFor(
    'the request and its failed step',
    () => named('POST /v1/desktops/:id/wake') && named('step wake.place'),
  )
  expect(named('step wake.place')?.status.code).toBe(2)
})

test('a collector that is unreachable delays nothing, and is named in the log', async () => {
  await using stack = await Stack.start({ hosts: 0, controlPlane: { otlpUrl: 'http://127.0.0.1:9' } })
  await stack.desktop()
  await waitFor('the warning', () => stack.chronicle.find(/could not be sent to the collector/).length > 0)
})
