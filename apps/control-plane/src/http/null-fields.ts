// Null means omitted, for every optional field: clients that are made from the document send each field that they have.
// Leaves the null of a field that may be null itself. Knows no route.
import type { FastifyRequest } from 'fastify'
import type { z } from 'zod'
import type { App } from './app.ts'

/** For every route of the scope that is registered after this, before its body is validated. */
export function omitNullFields(scope: App): void {
  scope.addHook('preValidation', (request: FastifyRequest, _reply, done) => {
    const schema = request.routeOptions.schema?.body as z.core.$ZodType | undefined
    if (schema) omitNulls(schema, request.body)
    done()
  })
}

/** Removes optional fields that are null, in place. */
export function omitNulls(schema: z.core.$ZodType, value: unknown): void {
  const { def } = (schema as z.core.$ZodTypes)._zod
  if (typeof value !== 'object' || value === null) return
  if (def.type === 'object') omitInObject(def.shape, value as Record<string, unknown>)
  else if (def.type === 'array') for (const item of [value].flat()) omitNulls(def.element, item)
  else if (def.type === 'union') for (const option of def.options) omitIfMeant(option, value)
  else if (def.type === 'pipe') for (const side of [def.in, def.out]) omitNulls(side, value)
  else if (def.type === 'lazy') omitNulls(def.getter(), value)
  else if ('innerType' in def) omitNulls(def.innerType, value)
}

function omitInObject(shape: z.core.$ZodShape, value: Record<string, unknown>): void {
  for (const [name, field] of Object.entries(shape)) {
    if (!Object.hasOwn(value, name)) continue
    if (value[name] === null && isOptional(field) && !isNullable(field)) delete value[name]
    else omitNulls(field, value[name])
  }
}

/** An option whose constant fields, such as `type`, differ is not meant. */
function omitIfMeant(option: z.core.$ZodType, value: object): void {
  const { def } = (option as z.core.$ZodTypes)._zod
  const constants = def.type === 'object' ? Object.entries(def.shape) : []
  const isMeant = constants.every(([name, field]) => mayBe(field, (value as Record<string, unknown>)[name]))
  if (isMeant) omitNulls(option, value)
}

const mayBe = (field: z.core.$ZodType, value: unknown): boolean => {
  const { def } = (field as z.core.$ZodTypes)._zod
  return def.type !== 'literal' || def.values.includes(value as never)
}

const isOptional = (field: z.core.$ZodType): boolean => field._zod.optin !== undefined

const isNullable = (field: z.core.$ZodType): boolean => {
  const { def } = (field as z.core.$ZodTypes)._zod
  if (def.type === 'nullable') return true
  return 'innerType' in def && isNullable(def.innerType)
}
