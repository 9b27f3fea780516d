// What a tool takes and returns, in the part of JSON Schema that the strict modes of all large makers of models take. The
// schema has types, names and choices; everything else is in the descriptions, and checked here.
import { didYouMean } from '@dormouse/contract'
import type { StandardSchemaWithJSON } from '@modelcontextprotocol/server'
import { z } from 'zod'

/** Every other keyword is refused by the strict mode of some maker, or ignored by it. */
export const commonKeywords = [
  ...['type', 'description', 'properties', 'required', 'additionalProperties', 'items', 'enum'],
] as const

type JsonSchema = Record<string, unknown>

/** Changes arguments before they are checked. What it throws is the error that the agent reads. */
export type Prepare = (given: Record<string, unknown>) => Record<string, unknown>

/** The arguments or the result of a tool, for the protocol's server. */
export function schemaOf(shape: z.ZodRawShape, prepare: Prepare = (given) => given): StandardSchemaWithJSON {
  const checked = z.strictObject(shape)
  const describe = (io: 'input' | 'output') => () => flat(z.toJSONSchema(checked, { io }) as JsonSchema)
  return {
    '~standard': {
      version: 1,
      vendor: 'dormouse',
      jsonSchema: { input: describe('input'), output: describe('output') },
      validate: (given) => check(checked, prepare, given),
    },
  }
}

function check(checked: z.ZodObject, prepare: Prepare, given: unknown) {
  try {
    const meant = prepare(withoutNulls(given) as Record<string, unknown>)
    const { data, error } = checked.safeParse(meant)
    if (!error) return { value: data }
    // A misspelt name explains the one that is missing.
    const issues = error.issues.toSorted((a, b) => Number(isUnknown(b)) - Number(isUnknown(a)))
    return { issues: issues.map((issue) => ({ message: sentence(issue, meant, Object.keys(checked.shape)) })) }
  } catch (error) {
    if (error instanceof TypeError) return { issues: [{ message: error.message }] }
    throw error
  }
}

/** In a strict mode a model must fill in every argument; null is its word for one that it leaves out. */
function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNulls)
  if (typeof value !== 'object' || value === null) return value
  const kept = Object.entries(value).filter(([, each]) => each !== null)
  return Object.fromEntries(kept.map(([name, each]) => [name, withoutNulls(each)]))
}

const named: Record<string, string> = {
  ...{ string: 'a string', number: 'a number', int: 'a whole number', boolean: 'true or false' },
  ...{ array: 'a list', object: 'an object' },
}

const isUnknown = ({ code }: z.core.$ZodIssue) => code === 'unrecognized_keys'

function sentence(issue: z.core.$ZodIssue, given: unknown, known: string[]): string {
  const name = issue.path.join('.') || 'the arguments'
  const isMissing =
    issue.path.reduce((value, key) => (value as Record<PropertyKey, unknown>)?.[key], given) === undefined
  return isMissing ? `${whyOf(issue, name, known)}; it is missing` : whyOf(issue, name, known)
}

function whyOf(issue: z.core.$ZodIssue, name: string, known: string[]): string {
  switch (issue.code) {
    case 'unrecognized_keys': {
      const [key = ''] = issue.keys
      return `there is no argument "${key}"${didYouMean(key, known)} The arguments are ${known.join(', ') || 'none'}`
    }
    case 'invalid_type':
      return `${name} must be ${named[issue.expected] ?? issue.expected}`
    case 'invalid_value':
      return `${name} must be ${issue.values.join(', ').replace(/, ([^,]*)$/, ' or $1')}`
    case 'too_small':
      return `${name} must be at least ${issue.minimum}${unitOf(issue.origin)}`
    case 'too_big':
      return `${name} must be at most ${issue.maximum}${unitOf(issue.origin)}`
    case 'invalid_format':
      return `${name} ${issue.format === 'uuid' ? 'must be an id such as 019a9f00-0000-7000-8000-000000000001' : issue.message}`
    default:
      return `${name} ${issue.message}`
  }
}

const unitOf = (origin: string): string => ({ string: ' characters long', array: ' items long' })[origin] ?? ''

const common: ReadonlySet<string> = new Set(commonKeywords)
/** They only narrow: their limits are put into the description, and zod checks them. */
const said = new Set([
  ...[
    '$schema',
    'default',
    'minimum',
    'maximum',
    'minLength',
    'maxLength',
    'minItems',
    'maxItems',
    'format',
    'pattern',
  ],
  'title',
])

/** The schema in common keywords. Throws if that would mean something else: the tool needs a simpler shape then. */
function flat(schema: JsonSchema): JsonSchema & { type: 'object' } {
  for (const word of Object.keys(schema))
    if (!common.has(word) && !said.has(word)) throw new Error(`no strict mode takes "${word}"; make the shape simpler`)
  if (typeof schema.type !== 'string') throw new Error('each part of a schema needs one type')
  const { properties, items } = schema as { properties?: Record<string, JsonSchema>; items?: JsonSchema }
  const kept = Object.entries(schema).filter(([word]) => common.has(word) && word !== 'description')
  const description = [schema.description, limitsOf(schema)].filter(Boolean).join('; ')
  return {
    ...Object.fromEntries(kept),
    ...(description && { description }),
    ...(properties && {
      properties: Object.fromEntries(Object.entries(properties).map(([name, each]) => [name, flat(each)])),
    }),
    ...(items && { items: flat(items) }),
  } as JsonSchema & { type: 'object' }
}

function limitsOf(schema: JsonSchema): string {
  const { minimum, maximum = Number.MAX_SAFE_INTEGER, maxLength, maxItems, default: preset } = schema
  const hasMost = maximum !== Number.MAX_SAFE_INTEGER
  const hasLeast = minimum !== undefined && minimum !== -Number.MAX_SAFE_INTEGER
  return [
    hasLeast && hasMost
      ? `${minimum} to ${maximum}`
      : hasLeast
        ? `at least ${minimum}`
        : hasMost
          ? `at most ${maximum}`
          : '',
    maxLength === undefined ? '' : `at most ${maxLength} characters`,
    maxItems === undefined ? '' : `at most ${maxItems} items`,
    preset === undefined ? '' : `default ${preset}`,
  ]
    .filter(Boolean)
    .join(', ')
}
