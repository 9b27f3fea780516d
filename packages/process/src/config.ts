// Makes a frozen configuration from environment variables, and the rows of its documentation from the same schema. Knows no
// variable, and does not read the environment: the caller passes it.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'

export interface SettingFacts {
  /** The environment variable. */
  env: string
  description: string
  /** Its value is never shown, neither in an error nor on the page. */
  secret: boolean
}

export interface SettingRow {
  name: string
  /** As it would be written. "none": may be left out; "required": must be set. */
  default: string
  description: string
  secret: boolean
}

/** The environment does not fit the schema. The message has what is wrong with each variable, and what to do. */
export class ConfigError extends Error {
  readonly problems: readonly string[]

  constructor(problems: readonly string[]) {
    super(`the configuration is not valid:\n${problems.map((problem) => `  - ${problem}`).join('\n')}`)
    this.name = 'ConfigError'
    this.problems = problems
  }
}

/** Names a field's environment variable. Wrap the whole field with it, including its default. */
export function setting<S extends z.ZodType>(env: string, description: string, schema: S, { secret = false } = {}): S {
  return schema.meta({ env, description, secret })
}

/**
 * The configuration from the variables, frozen. An empty variable counts as unset. A secret may also be a file with the
 * variable's name in the folder of systemd's credentials. Throws ConfigError.
 */
export function readConfig<S extends z.ZodObject>(schema: S, variables: Record<string, string | undefined>) {
  const env = withCredentials(schema, variables)
  const values = Object.entries(schema.shape).map(([field, type]) => [
    field,
    env[factsOf(field, type).env] || undefined,
  ])
  const parsed = schema.safeParse(Object.fromEntries(values))
  if (!parsed.success) throw new ConfigError(parsed.error.issues.map((issue) => problemOf(schema, env, issue)))
  return freeze(parsed.data)
}

function withCredentials(schema: z.ZodObject, env: Record<string, string | undefined>) {
  const folder = env.CREDENTIALS_DIRECTORY
  if (!folder) return env
  const names = describeConfig(schema)
    .filter(({ name, secret }) => secret && !env[name])
    .map(({ name }) => name)
  return { ...env, ...Object.fromEntries(names.map((name) => [name, credentialIn(join(folder, name), name)])) }
}

function credentialIn(file: string, name: string): string | undefined {
  try {
    return readFileSync(file, 'utf8').trim()
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return undefined
    throw new ConfigError([
      `${name} is in ${file}, which cannot be read (${code}); run this as root, or correct the file`,
    ])
  }
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
  throw new TypeError(`the field "${field}" has no variable; wrap it in setting('NAME', 'what it is', …)`)
}

/** The default as it would be written, before any transformation; a default that follows one, as it is used. */
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
  if (!type) return issue.message
  const facts = factsOf(field, type)
  const value = env[facts.env]
  if (!value) return `${facts.env} is not set; set it: ${facts.description}`
  const shown = facts.secret ? 'has a value that is not valid' : `is "${value}"`
  const hint =
    defaultOf(type) === 'required' ? 'correct it' : `correct it, or unset it for the default (${defaultOf(type)})`
  return `${facts.env} ${shown}: ${plain(issue)}; ${hint}: ${facts.description}`
}

/** Messages that zod words itself. */
function plain(issue: z.core.$ZodIssue): string {
  if (issue.code === 'invalid_type')
    return issue.expected === 'int' ? 'must be a whole number' : `must be a ${issue.expected}`
  if (issue.code === 'too_big') return `must be at most ${issue.maximum}`
  if (issue.code === 'too_small' && issue.origin !== 'string') return `must be at least ${issue.minimum}`
  if (issue.code === 'invalid_format' && issue.format === 'url') return 'must be a URL'
  if (issue.code === 'invalid_value') return `must be ${issue.values.map(String).join(' or ')}`
  return issue.message
}

function freeze<T>(value: T): Readonly<T> {
  if (typeof value !== 'object' || value === null) return value
  for (const part of Object.values(value)) freeze(part)
  return Object.freeze(value)
}
