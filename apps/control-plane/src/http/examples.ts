// Examples of bodies for the OpenAPI document: that of the schema itself, or one made of those of its parts. Pure.
import type { FastifySchema } from 'fastify'
import type { z } from 'zod'

export interface Examples {
  body?: unknown
  /** By status. */
  answers: Record<string, unknown>
}

/** The examples of a route, if its schemas have some. */
export function examplesOf({ body, response }: FastifySchema): Examples {
  const answers = Object.entries((response ?? {}) as Record<string, z.ZodType>)
  return {
    body: body && exampleOf(body as z.ZodType),
    answers: Object.fromEntries(answers.map(([status, schema]) => [status, exampleOf(schema)])),
  }
}

/** Undefined if any part that is needed has none. */
function exampleOf(schema: z.ZodType): unknown {
  const [own] = schema.meta()?.examples ?? []
  if (own !== undefined) return own
  const { def } = schema._zod as unknown as z.core.$ZodTypes['_zod']
  switch (def.type) {
    case 'object': {
      const fields = Object.entries(def.shape).map(([name, field]) => [name, exampleOf(field as z.ZodType)] as const)
      return fields.some(([, example]) => example === undefined) ? undefined : Object.fromEntries(fields)
    }
    case 'array': {
      const item = exampleOf(def.element as z.ZodType)
      return item === undefined ? undefined : [item]
    }
    case 'nullable':
      return exampleOf(def.innerType as z.ZodType) ?? null
    default:
      return undefined
  }
}
