// The route of the metrics. Its scope requires an operator key.
import type { App } from '../http/app.ts'
import type { Telemetry } from './telemetry.ts'

export function metricsRoutes(app: App, { telemetry }: { telemetry: Telemetry }): void {
  app.get('/metrics', { schema: { hide: true } }, async (_request, reply) =>
    reply
      .type(telemetry.contentType)
      .serializer(String)
      .send(await telemetry.text()),
  )
}
