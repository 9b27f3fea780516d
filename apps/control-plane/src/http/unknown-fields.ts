// Refuses fields and query parameters that a route does not know: a misspelt one must not be ignored. Reads the very schemas
// that validate, before them. Knows no route.
import { didYouMean, Refusal, refuseField } from '@dormouse/contract'
import type { FastifyRequest } from 'fastify'
import type { z } from 'zod'
import type { App } from './app.ts'

/** For every route of the scope that is registered after this. */
export function refuseUnknownFields(scope: App): void {
  scope.addHook('preValidation', (request: FastifyRequest, _reply, done) => {
    refuseMalformedQuery(request.raw.url)
    const { querystring, body } = request.routeOptions.schema ?? {}
    refuseUnknown('query parameter', querystring as z.core.$ZodType | undefined, request.query)
    refuseUnknown('field', body as z.core.$ZodType | undefined, request.body)
    done()
  })
}

/** The parser would take what it cannot decode as it is written: another file's name. */
function refuseMalformedQuery(url = ''): void {
  const from = url.indexOf('?')
  if (from < 0 || !url.includes('%', from)) return
  try {
    decodeURIComponent(url.slice(from))
  } catch {
    refuseField('query', 'must be percent-encoded UTF-8; write a percent sign as `%25`')
  }
}

/** Throws a 400 for the first name that the schema does not know, with the known ones that are like it. */
export function refuseUnknown(what: string, schema: z.core.$ZodType | undefined, given: unknown): void {
  const unknown = schema ? findUnknown(schema, given, []) : unknownOf(given, [], [])
  if (!unknown) return
  const { path, known } = unknown
  const field = inShort(path.join('.'))
  const like = didYouMean(path.at(-1)!, known) || knownNames(what, known, path.length > 1)
  throw new Refusal('invalid_request', `unknown ${what} "${field}"${like}`, { field })
}

interface Unknown {
  path: string[]
  /** The names that its object may have. */
  known: string[]
}

const mostNames = 20

function knownNames(what: string, known: string[], isNested: boolean): string {
  const where = isNested ? 'its object' : 'this route'
  if (known.length === 0) return `; ${where} takes no ${what}; leave it out`
  const more = known.length > mostNames ? ' and others' : ''
  return `; ${where} takes ${known.slice(0, mostNames).join(', ')}${more}`
}

/** The first unknown name in a value, in the order in which it is written. */
function findUnknown(schema: z.core.$ZodType, value: unknown, path: string[]): Unknown | undefined {
  const { def } = (schema as z.core.$ZodTypes)._zod
  switch (def.type) {
    case 'object':
      return unknownInObject(def, value, path)
    case 'record':
      return firstOf(entriesOf(value), ([name, inner]) => findUnknown(def.valueType, inner, [...path, name]))
    case 'array': {
      const items = Array.isArray(value) ? value.entries() : []
      return firstOf(items, ([i, inner]) => findUnknown(def.element, inner, [...path, String(i)]))
    }
    case 'union':
      return unknownInUnion(def.options, value, path)
    case 'pipe':
      return findUnknown(isTransform(def.in) ? def.out : def.in, value, path)
    case 'lazy':
      return findUnknown(def.getter(), value, path)
    default:
      return 'innerType' in def ? findUnknown(def.innerType, value, path) : undefined
  }
}

function unknownInObject(
  { shape, catchall }: z.core.$ZodObjectDef,
  value: unknown,
  path: string[],
): Unknown | undefined {
  const isOpen = catchall !== undefined && catchall._zod.def.type !== 'never'
  return (
    (isOpen ? undefined : unknownOf(value, Object.keys(shape), path)) ??
    firstOf(entriesOf(value), ([name, inner]) => {
      const field = Object.hasOwn(shape, name) ? shape[name] : undefined
      return field && findUnknown(field, inner, [...path, name])
    })
  )
}

/** The options that the value's constant fields (such as `type`) name decide; if they name none, the fields of any option. */
function unknownInUnion(options: readonly z.core.$ZodType[], value: unknown, path: string[]): Unknown | undefined {
  const meant = options.filter((option) => isMeant(option, value))
  const found = meant.map((option) => findUnknown(option, value, path))
  if (meant.length > 0) return found.includes(undefined) ? undefined : found[0]
  const known = options.flatMap((option) => Object.keys(shapeOf(option) ?? {}))
  return known.length === 0 ? undefined : unknownOf(value, [...new Set(known)], path)
}

function isMeant(option: z.core.$ZodType, value: unknown): boolean {
  const shape = shapeOf(option)
  if (!shape) return !isObject(value)
  return isObject(value) && Object.entries(shape).every(([name, field]) => mayBe(field, value[name]))
}

/** Whether a value is that of a constant field; any other field decides nothing. */
function mayBe(field: z.core.$ZodType, value: unknown): boolean {
  const { def } = (field as z.core.$ZodTypes)._zod
  return def.type !== 'literal' || def.values.includes(value as never)
}

function shapeOf(schema: z.core.$ZodType): z.core.$ZodShape | undefined {
  const { def } = (schema as z.core.$ZodTypes)._zod
  return def.type === 'object' ? def.shape : undefined
}

function unknownOf(value: unknown, known: string[], path: string[]): Unknown | undefined {
  const name = entriesOf(value).find(([each]) => !known.includes(each))?.[0]
  return name === undefined ? undefined : { path: [...path, name], known }
}

function firstOf<T>(items: Iterable<T>, find: (item: T) => Unknown | undefined): Unknown | undefined {
  for (const item of items) {
    const found = find(item)
    if (found) return found
  }
  return undefined
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !Buffer.isBuffer(value)

const entriesOf = (value: unknown): [string, unknown][] => (isObject(value) ? Object.entries(value) : [])

const isTransform = (schema: z.core.$ZodType): boolean => schema._zod.def.type === 'transform'

/** The caller's own text comes back: never more of it than a person reads. */
const inShort = (text: string): string => (text.length > 300 ? `${text.slice(0, 300).toWellFormed()}…` : text)
