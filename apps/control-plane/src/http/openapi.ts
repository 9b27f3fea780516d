// The OpenAPI 3.1 document, made from the very schemas that validate. Customers' routes only: operators' and agents' are not in
// it. A route's schema has what its successes mean, and the problems that other routes do not have.
import { problemJson, type UseClass, wakeWish, wakeWishHeader, wokenJson } from '@dormouse/contract'
import swagger from '@fastify/swagger'
import type { FastifyRequest, FastifySchema } from 'fastify'
import {
  fastifyZodOpenApiPlugin,
  fastifyZodOpenApiTransform,
  fastifyZodOpenApiTransformObject,
} from 'fastify-zod-openapi'
import { z } from 'zod'
import {
  type Answers,
  type Content,
  type DocumentedResponse,
  documented,
  type ProblemStatus,
  problemsOf,
  sharedHeaders,
  sharedProblems,
} from './answers.ts'
import type { App } from './app.ts'
import { type Examples, examplesOf } from './examples.ts'
import { refuseUnknown } from './unknown-fields.ts'

declare module 'fastify' {
  interface FastifySchema {
    /** What each success means, by its status. */
    answers?: Answers
    /** Problems beyond those that every route of its method has. */
    problems?: readonly ProblemStatus[]
    /** Takes an Idempotency-Key; how far a key reaches. */
    keyed?: 'organisation' | 'desktop'
    /** The body may be left out, which is `{}`. */
    bodyOptional?: boolean
    /** Wakes its desktop if that is wanted for this class of calls. */
    wakes?: UseClass
    /** Takes bytes as they are, whatever the Content-Type says; what they are. */
    bytes?: string
  }
}

const info = {
  title: 'Dormouse',
  version: '1.0.0',
  description:
    'Desktops that sleep and wake: virtual machines that belong to an organisation. Times are RFC 3339 in UTC, ids are UUIDs. Every failure is a problem (RFC 9457) with a `code` for programs. 503 and 504 mean that the exact request is safe to send again. A command that was sent without an Idempotency-Key may have begun then, and would run again: send commands with one.',
  license: { name: 'Apache License 2.0', identifier: 'Apache-2.0' },
}

const tags = [
  { name: 'Desktops', description: 'Create, list and read desktops, and ask for transitions' },
  { name: 'Operations', description: 'The pollable records of transitions' },
  { name: 'Guest', description: 'What happens inside an awake desktop' },
  { name: 'Events', description: 'What changes, in the order in which it changes' },
  { name: 'Usage', description: 'What was used, as far as hosts have proved it' },
  { name: 'Keys', description: 'API keys that may do less than the one that makes them' },
  { name: 'Webhooks', description: 'Events that are sent to a URL, and the log of their deliveries' },
  { name: 'Contract', description: 'This document' },
]

const securitySchemes = {
  bearer: {
    type: 'http',
    scheme: 'bearer',
    description: 'An API key (`svc_sk_…`), or a JWT access token of the identity provider',
  },
} as const

const documentJson = z
  .looseObject({ openapi: z.string(), paths: z.looseObject({}) })
  .meta({ id: 'OpenApiDocument', examples: [{ openapi: '3.1.0', paths: {} }] })

/** Serves the document, unauthenticated, and makes it from all routes registered afterwards. */
export async function publishOpenApi(app: App): Promise<void> {
  await app.register(fastifyZodOpenApiPlugin, {
    components: { schemas: { Problem: problemJson, Woken: wokenJson } },
    documentOpts: {
      // Answers may grow new fields, and requests have no unknown ones; no integer needs the limits of what JSON can carry.
      override: ({ zodSchema, jsonSchema, io }) => {
        const { def } = zodSchema._zod
        if (def.type === 'object' && io === 'input') jsonSchema.additionalProperties ??= false
        if (def.type === 'object' && io === 'output' && !def.catchall) delete jsonSchema.additionalProperties
        if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum
        if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum
      },
      allowEmptySchema: { custom: true },
    },
  })
  await app.register(swagger, {
    openapi: { openapi: '3.1.0', info, tags, components: { securitySchemes }, security: [{ bearer: [] }] },
    transform,
    transformObject: (made) => complete(fastifyZodOpenApiTransformObject(made) as never) as never,
  })
  let document: string | undefined
  const schema = {
    operationId: 'getOpenApi',
    tags: ['Contract'],
    summary: 'Read this document',
    security: [],
    response: { 200: documentJson },
    answers: { 200: 'The OpenAPI 3.1 document of the service' },
  }
  const preValidation = ({ query }: FastifyRequest, _reply: unknown, done: () => void) => {
    refuseUnknown('query parameter', undefined, query)
    done()
  }
  for (const guess of ['/openapi.json', '/swagger.json'])
    app.get(guess, { schema: { hide: true } }, (_request, reply) => reply.redirect('/v1/openapi.json', 302))
  app.get('/v1/openapi.json', { schema, preValidation }, async (_request, reply) => {
    // A text already: made once, and the same for everybody.
    document ??= JSON.stringify(app.swagger())
    return reply
      .type('application/json')
      .serializer(String)
      .send(document as never)
  })
}

const notes = ['answers', 'problems', 'keyed', 'bodyOptional', 'bytes', 'wakes', 'right', 'examples'] as const

type Route = Parameters<typeof fastifyZodOpenApiTransform>[0]

/** Passes a route's own fields through the generator, which keeps only what begins with `x-`. */
function transform(route: Route): { schema: FastifySchema; url: string } {
  const { schema, url } = route
  if (!url.startsWith('/v1/') || !schema || schema.hide) return { schema: { hide: true }, url }
  const said = { ...schema, examples: examplesOf(schema) }
  const carried = Object.fromEntries(notes.map((note) => [`x-${note}`, said[note]]))
  const left = Object.fromEntries(notes.map((note) => [note, undefined]))
  return fastifyZodOpenApiTransform({ ...route, ...namingRest(url, { ...schema, ...left, ...carried }) } as Route)
}

/** The rest of a path has no name in the router; in the document it is `path`. */
function namingRest(url: string, schema: FastifySchema): { url: string; schema: FastifySchema } {
  if (!url.endsWith('/*')) return { url, schema }
  const { '*': path, ...others } = (schema.params as z.ZodObject).shape
  return { url: `${url.slice(0, -1)}:path`, schema: { ...schema, params: z.object({ ...others, path: path! }) } }
}

interface Parameter {
  name: string
  in: string
  schema: { type?: string; pattern?: string; enum?: unknown[] }
}

interface Operation {
  description?: string
  parameters?: Parameter[]
  requestBody?: { content?: Content }
  responses: Record<string, DocumentedResponse | { $ref: string }>
  security?: object[]
  'x-answers'?: Answers
  'x-problems'?: ProblemStatus[]
  'x-keyed'?: 'organisation' | 'desktop'
  'x-bodyOptional'?: boolean
  'x-bytes'?: string
  'x-wakes'?: UseClass
  'x-right'?: FastifySchema['right']
  'x-examples'?: Examples
}

export interface OpenApiDocument {
  openapi: string
  paths: Record<string, Record<string, Operation>>
  components: Record<string, Record<string, object>>
  [more: string]: unknown
}

function complete(made: OpenApiDocument): OpenApiDocument {
  for (const [path, methods] of Object.entries(made.paths)) {
    made.paths[path] = Object.fromEntries(Object.entries(methods).map(([name, one]) => [name, finish(one)]))
  }
  const operations = Object.values(made.paths).flatMap((methods) => Object.values(methods))
  const statuses = new Set(operations.flatMap(({ responses }) => Object.keys(responses).map(Number)))
  const components = { ...made.components, headers: sharedHeaders, responses: sharedProblems(statuses) }
  return { ...made, components }
}

function finish(operation: Operation): Operation {
  const {
    'x-answers': answers = {},
    'x-problems': problems = [],
    'x-keyed': keyed,
    'x-bodyOptional': bodyOptional = false,
    'x-bytes': bytes,
    'x-wakes': wakes,
    'x-right': right,
    'x-examples': examples = { answers: {} },
    ...rest
  } = operation
  const body = rest.requestBody && {
    ...rest.requestBody,
    ...(bodyOptional && { required: false }),
    ...(rest.requestBody.content && { content: shown(rest.requestBody.content, examples.body) }),
  }
  const successes = Object.entries(answers).map(([status, answer]) => {
    const made = rest.responses[status]
    const response = documented(made && 'description' in made ? made : undefined, answer, {
      keyed: !!keyed,
      wakes: !!wakes,
    })
    return [
      status,
      { ...response, ...(response.content && { content: shown(response.content, examples.answers[status]) }) },
    ]
  })
  return {
    ...rest,
    ...((keyed || wakes || rest.parameters) && {
      parameters: [
        ...(rest.parameters ?? []).map(plain),
        ...(keyed ? [idempotencyKey(keyed)] : []),
        ...(wakes ? [wakeHeader(wakes)] : []),
      ],
    }),
    ...(right && { description: [rest.description, needing(right)].filter(Boolean).join(' ') }),
    ...(body && { requestBody: body }),
    ...(bytes && { requestBody: bytesBody(bytes) }),
    responses: {
      ...Object.fromEntries(successes),
      ...problemsOf([
        ...everybodysProblems(rest),
        ...(rest.requestBody || bytes ? [415 as const] : []),
        ...(right || wakes ? [403 as const] : []),
        ...problems,
      ]),
    },
  }
}

function needing(right: NonNullable<FastifySchema['right']>): string {
  if (typeof right === 'string') return `Needs the right \`${right}\`.`
  const by = 'field' in right ? ([right.field, 'of each field'] as const) : ([right.action, 'of the action'] as const)
  const each = Object.entries(by[0]).map(([name, one]) => `\`${one}\` for \`${name}\``)
  return `Needs the right ${by[1]}: ${each.join(', ')}.`
}

/** Each JSON body with its example, which tools show in place of one that they make up. */
function shown(content: Content, example: unknown): Content {
  const of = (type: string) => (example !== undefined && type === 'application/json' ? { example } : undefined)
  return Object.fromEntries(Object.entries(content).map(([type, media]) => [type, { ...media, ...of(type) }]))
}

/** A number or a boolean of a query is read from text; the pattern and the choices of that text are none of its own. */
function plain(parameter: Parameter): Parameter {
  const { pattern, enum: choices, ...schema } = parameter.schema
  const isText = !['integer', 'number', 'boolean'].includes(schema.type ?? '')
  return isText ? parameter : { ...parameter, schema }
}

/**
 * What any route may answer: the document itself needs no credential and is read from memory; only connections are counted for
 * it.
 */
function everybodysProblems({ security }: Operation): ProblemStatus[] {
  if (security?.length === 0) return [400, 413, 429, 500]
  return [400, 401, 413, 429, 500, 503]
}

const idempotencyKey = (scope: 'organisation' | 'desktop') => ({
  name: 'Idempotency-Key',
  in: 'header',
  required: false,
  description: `ASCII, 1 to 255 characters. A repeat with the same key by the same ${scope === 'desktop' ? 'caller on the same desktop' : 'organisation'} answers the existing record instead of making another`,
  schema: { type: 'string', minLength: 1, maxLength: 255, pattern: '^[\\t -~]+$' },
})

const wakeHeader = (use: UseClass) => ({
  name: wakeWishHeader,
  in: 'header',
  required: false,
  description: `\`allow\`: a desktop that is asleep is woken, and the call goes on. \`never\`: it is not. Without it, the desktop is woken if its \`wake_on\` has \`${use}\``,
  schema: { type: 'string', enum: wakeWish.options },
})

const bytesBody = (description: string) => ({
  description,
  required: true,
  content: { 'application/octet-stream': { schema: { type: 'string', format: 'binary' } } },
})
