// From environment variables to one frozen configuration, and from the same schema to its page of documentation.
// Knows no variable by itself, and reads no environment: the caller hands it in.
import { z } from 'zod'

export interface SettingFacts {
  /** The environment variable. */
  env: string
  description: string
  /** Never shown: neither in an error nor on the page. */
  secret: boolean
}

export interface SettingRow {
  name: string
  /** As it would be written; "none" where it may be left out, "required" where it may not. */
  default: string
  description: string
  secret: boolean
}

/** The environment does not fit the schema; the message says of each variable what is wrong and what to do. */
export class ConfigError extends Error {
  readonly problems: readonly string[]

  constructor(problems: readonly string[]) {
    super(`The configuration cannot be used:\n${problems.map((problem) => `  - ${problem}`).join('\n')}`)
    this.name = 'ConfigError'
    this.problems = problems
  }
}

/** Ties a field to its environment variable. Put it outermost, around the default. */
export function setting<S extends z.ZodType>(env: string, description: string, schema: S, { secret = false } = {}): S {
  return schema.meta({ env, description, secret })
}

/** The configuration that the variables say, frozen. An empty variable counts as unset. Throws ConfigError. */
export function readConfig<S extends z.ZodObject>(schema: S, env: Record<string, string | undefined>) {
  const values = Object.entries(schema.shape).map(([field, type]) => [
    field,
    env[factsOf(field, type).env] || undefined,
  ])
  const parsed = schema.safeParse(Object.fromEntries(values))
  if (!parsed.success) throw new ConfigError(parsed.error.issues.map((issue) => problemOf(schema, env, issue)))
  return freeze(parsed.data)
}

/** One row per variable, in the order of the schema. */
export function describeConfig(schema: z.ZodObject): SettingRow[] {
  return Object.entries(schema.shape).map(([field, type]) => {
    const { env, description, secret } = factsOf(field, type)
    return { name: env, default: defaultOf(type), description, secret }
  })
}

function factsOf(field: string, type: z.core.$ZodType): SettingFacts {
  const { env, description, secret } = (type as z.ZodType).meta() ?? {}
  if (typeof env === 'string' && description) return { env, description, secret: secret === true }
  throw new TypeError(`the field "${field}" names no variable: wrap it whole in setting('NAME', 'what it is', …)`)
}

/** The default as it would be written into the variable, before any transformation; a default behind one as it is used. */
function defaultOf(type: z.core.$ZodType): string {
  const used = (type as z.ZodType).safeParse(undefined)
  if (!used.success) return 'required'
  const written = z.toJSONSchema(type, { io: 'input', unrepresentable: 'any' }).default ?? used.data
  if (written === undefined || written === '') return 'none'
  return typeof written === 'object' ? JSON.stringify(written) : String(written)
}

function problemOf(schema: z.ZodObject, env: Record<string, string | undefined>, issue: z.core.$ZodIssue): string {
  const field = String(issue.path[0] ?? '')
  const type = schema.shape[field]
  if (!type) return `${issue.message}.`
  const facts = factsOf(field, type)
  const value = env[facts.env]
  if (!value) return `${facts.env} is not set. Set it: ${facts.description}.`
  const shown = facts.secret ? 'has a value that does not fit' : `is "${value}"`
  const hint =
    defaultOf(type) === 'required' ? 'Correct it' : `Correct it, or unset it for the default (${defaultOf(type)})`
  return `${facts.env} ${shown}: ${issue.message}. ${hint}: ${facts.description}.`
}

function freeze<T>(value: T): Readonly<T> {
  if (typeof value !== 'object' || value === null) return value
  for (const part of Object.values(value)) freeze(part)
  return Object.freeze(value)
}
