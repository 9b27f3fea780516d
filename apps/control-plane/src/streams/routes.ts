// Customers' routes to a desktop's screen. HTTP and nothing else.
import { id, type StreamJson, streamBody, streamJson } from '@dormouse/contract'
import { z } from 'zod'
import type { App } from '../http/app.ts'
import { originOf } from '../http/origin.ts'
import { customer } from '../principals/authentication.ts'
import type { Streams } from './service.ts'

const params = z.object({ id })

export interface StreamRoutesOptions {
  streams: Streams
  /** The service's public origin; by default the one of the request. */
  origin: string | undefined
}

export function streamRoutes(app: App, { streams, origin }: StreamRoutesOptions): void {
  app.post(
    '/desktops/:id/stream',
    {
      schema: {
        operationId: 'openStream',
        right: 'use',
        tags: ['Guest'],
        wakes: 'screen',
        summary: 'Claim a desktop’s screen and get a URL that shows it',
        description:
          'Each claim has one holder: the API key, or the subject of the access token. The holder keeps it until the URL expires unopened; once opened, while a screen is open and for 30 s after. The URL opens once, within 60 s; the holder can request another.',
        params,
        body: streamBody,
        response: { 200: streamJson },
        answers: { 200: 'The caller holds the claim' },
        problems: [403, 404, 409],
      },
    },
    async (request): Promise<StreamJson> => {
      const { claim } = request.body
      const { token, expiresAt } = await streams.open(customer(request), request.params.id, request.body)
      const screen = `${origin ?? originOf(request)}/screens/${request.params.id}/${claim}`
      return {
        url: `${screen}#${token}`,
        websocket_url: `${screen.replace(/^http/, 'ws')}/${token}`,
        expires_at: expiresAt.toISOString(),
        claim,
      }
    },
  )
}
