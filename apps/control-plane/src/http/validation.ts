// The message of a failed validation: the field's name and what it must be, never zod's own words.
import { Refusal, refusals } from '@dormouse/contract'
import type { FastifySchemaValidationError } from 'fastify'

/** An issue as zod reports it. */
interface Issue {
  expected?: string
  values?: unknown[]
  keys?: string[]
  /** For a union: the values of its constant field, or what is wrong by each option. */
  options?: unknown[]
  errors?: { expected?: string }[][]
  format?: string
  minimum?: number
  maximum?: number
  origin?: string
}

/** The refusal of the first issue, by the name of the field as the caller wrote it. */
export function invalidRequest(issue: FastifySchemaValidationError | undefined, context: string | undefined): Refusal {
  const { issue: params = {} } = (issue?.params ?? {}) as { issue?: Issue }
  const path = (issue?.instancePath ?? '').split('/').filter(Boolean)
  const field = inShort([...path, ...(params.keys?.slice(0, 1) ?? [])].join('.') || context || 'request')
  const isMissing = context === 'querystring' && / received undefined$/.test(issue?.message ?? '')
  const why = isMissing ? 'must be sent, as a query parameter' : inShort(whyOf(issue?.keyword, params, issue?.message))
  return new Refusal('invalid_request', refusals.invalid_request.detail({ field, why }), { field })
}

function whyOf(keyword: string | undefined, params: Issue, message = 'is not valid'): string {
  if (keyword === 'unrecognized_keys') return 'is not a known field; correct its name, or leave it out'
  if (!isOfZod(message)) return message
  if (keyword === 'invalid_value') return `must be ${listed(params.values ?? [])}`
  if (keyword === 'invalid_type') return `must be ${typeNamed(params.expected)}`
  if (keyword === 'invalid_format') return formats[params.format ?? ''] ?? 'is not valid'
  if (keyword === 'invalid_union') return whyOfUnion(params)
  if (keyword === 'too_small') return `must be at least ${sized(params.minimum, params.origin)}`
  if (keyword === 'too_big') return `must be at most ${sized(params.maximum, params.origin)}`
  return 'is not valid'
}

/** Schemas that explain themselves begin in lower case. */
const isOfZod = (message: string): boolean => /^[A-Z]/.test(message)

const named: Record<string, string> = {
  string: 'a string',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
  record: 'an object',
}

const typeNamed = (expected = ''): string => named[expected] ?? expected

const formats: Record<string, string> = {
  datetime: 'must be an RFC 3339 time, such as 2026-01-01T12:00:00Z',
  uuid: 'must be a UUID',
  url: 'must be a URL, such as https://example.com/hook',
}

function whyOfUnion({ options = [], errors = [] }: Issue): string {
  if (options.length > 0) return `must be ${listed(options)}`
  const types = errors.flat().flatMap(({ expected }) => (expected ? [typeNamed(expected)] : []))
  return types.length > 0 ? `must be ${listed([...new Set(types)])}` : 'is not valid'
}

const listed = (values: unknown[]): string =>
  values
    .filter((value) => value !== '')
    .map(String)
    .join(', ')
    .replace(/, ([^,]*)$/, ' or $1')

const units: Record<string, string> = { string: 'character', array: 'item' }

function sized(size = 0, origin = ''): string {
  const unit = units[origin]
  return unit ? `${size} ${unit}${size === 1 ? '' : 's'} long` : String(size)
}

/** The caller's own text comes back: never more of it than a person reads. */
const inShort = (text: string): string => (text.length > 300 ? `${text.slice(0, 300).toWellFormed()}…` : text)
