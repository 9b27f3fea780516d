// The OpenAPI 3.1 document, made from the very schemas that validate.
import swagger from '@fastify/swagger'
import { jsonSchemaTransform, jsonSchemaTransformObject } from 'fastify-type-provider-zod'
import type { App } from './server.ts'

/** Serves the document, unauthenticated, and makes it from all routes registered afterwards. */
export async function publishOpenApi(app: App): Promise<void> {
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: { title: 'Dormouse', version: '1.0.0', description: 'Desktops that sleep and wake.' },
      components: { securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } } },
      security: [{ bearer: [] }],
    },
    transform: jsonSchemaTransform,
    transformObject: jsonSchemaTransformObject,
  })
  let document: string | undefined
  app.get('/v1/openapi.json', { schema: { security: [] } }, async (_request, reply) => {
    document ??= JSON.stringify(withoutServers(app.swagger() as unknown as Record<string, unknown>))
    return reply.type('application/json').serializer(String).send(document)
  })
}

/** No address is fixed: the document is true wherever it is served. */
function withoutServers(document: Record<string, unknown>): Record<string, unknown> {
  const { servers: _, ...rest } = document
  return rest
}
