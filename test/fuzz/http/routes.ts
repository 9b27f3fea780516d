// Every route of a service: customers' from its OpenAPI document, the others by name. Knows no way to misuse them.
import type { OpenApi } from '../../openapi.ts'

export interface Route {
  method: string
  /** With its parameters in braces. */
  path: string
  /** The schema of the body if it is JSON; `bytes` if it may be anything. */
  body: Schema | 'bytes' | undefined
}

/** What is read of a JSON schema. */
export interface Schema {
  $ref?: string
  type?: string
  enum?: unknown[]
  anyOf?: Schema[]
  oneOf?: Schema[]
  items?: Schema
  properties?: Record<string, Schema>
}

type Content = Record<string, { schema: Schema }>
type Described = { requestBody?: { content?: Content } }

const text: Schema = { type: 'string' }
const shape = (properties: Record<string, Schema>): Schema => ({ type: 'object', properties })
const publicKey = shape({ kty: { enum: ['OKP'] }, crv: { enum: ['Ed25519'] }, x: { enum: ['x'.repeat(43)] } })

/** What no document of customers' lists. `/agent/v1/link` and `/screens/…` are asked without an upgrade, too. */
const others: [method: string, path: string, body?: Schema][] = [
  ['GET', '/admin/v1/orgs'],
  ['POST', '/admin/v1/orgs', shape({ name: text })],
  ['PATCH', '/admin/v1/orgs/{id}', shape({ max_desktops: { type: 'integer' } })],
  ['GET', '/admin/v1/keys'],
  ['POST', '/admin/v1/keys', shape({ org_id: text, name: text })],
  ['DELETE', '/admin/v1/keys/{id}'],
  ['GET', '/admin/v1/hosts'],
  ['POST', '/admin/v1/hosts/{id}/trust'],
  ['POST', '/admin/v1/hosts/{id}/cordon'],
  ['POST', '/admin/v1/hosts/{id}/uncordon'],
  ['POST', '/admin/v1/hosts/{id}/drain', shape({ awake: text, sleeping: text, deadline_secs: { type: 'integer' } })],
  ['GET', '/admin/v1/drains/{id}'],
  ['POST', '/admin/v1/drains/{id}/cancel'],
  ['POST', '/admin/v1/hosts/{id}/loss', shape({ yes_lose: { type: 'integer' } })],
  ['POST', '/admin/v1/hosts/{id}/return'],
  ['GET', '/admin/v1/images'],
  ['GET', '/admin/v1/images/{id}'],
  [
    'POST',
    '/admin/v1/images',
    shape({ name: text, version: text, from: text, digest: text, prefetch: { type: 'boolean' } }),
  ],
  ['POST', '/admin/v1/images/{id}/use'],
  ['POST', '/admin/v1/images/{id}/retire'],
  ['GET', '/admin/v1/audit'],
  ['POST', '/admin/v1/hosts/invites', shape({ name: text, valid_secs: { type: 'integer' } })],
  ['GET', '/admin/v1/desktops'],
  ['POST', '/admin/v1/desktops/{id}/hibernate', shape({})],
  ['POST', '/admin/v1/desktops/{id}/move', shape({ to: text })],
  ['POST', '/agent/v1/enrol', shape({ token: text, name: text, public_key: publicKey })],
  ['GET', '/agent/v1/link'],
  ['GET', '/agent/v1/channels/{id}'],
  ['GET', '/screens/{id}/view'],
  ['GET', '/screens/{id}/control/{id}'],
  ['GET', '/screens/assets/{id}'],
  ['GET', '/healthz'],
  ['GET', '/readyz'],
  ['GET', '/metrics'],
  ['GET', '/docs'],
  ['GET', '/'],
]

/** All routes, each with the shape of its body. */
export function routesOf(document: OpenApi): Route[] {
  const theirs = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, described]) => ({
      method: method.toUpperCase(),
      path,
      body: bodyOf(document, described as Described),
    })),
  )
  return [...theirs, ...others.map(([method, path, body]) => ({ method, path, body }))]
}

function bodyOf(document: OpenApi, { requestBody }: Described): Route['body'] {
  if (!requestBody?.content) return undefined
  const json = requestBody.content['application/json']
  return json ? resolved(document, json.schema) : 'bytes'
}

function resolved(document: OpenApi, schema: Schema): Schema {
  const [, , group = '', name = ''] = schema.$ref?.split('/') ?? []
  return schema.$ref ? resolved(document, document.components[group]?.[name] as Schema) : schema
}
