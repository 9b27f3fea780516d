// The type of the HTTP server and of every scope in it. Types only.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { FastifyBaseLogger, FastifyInstance, RawServerDefault } from 'fastify'
import type { FastifyZodOpenApiTypeProvider } from 'fastify-zod-openapi'

export type App = FastifyInstance<
  RawServerDefault,
  IncomingMessage,
  ServerResponse,
  FastifyBaseLogger,
  FastifyZodOpenApiTypeProvider
>
