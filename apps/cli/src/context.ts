// What every command gets: the terminal, and API clients. Created once, in main.ts.
import { type AdminClient, type Client, createAdminClient, createClient, type WakeWish } from '@dormouse/client'
import { type About, CliError, exitCodes } from './failures.ts'
import type { Env, KeyField } from './profiles.ts'
import { findService, misspelt } from './service.ts'
import { json, type Terminal } from './terminal.ts'
import { trustMachine } from './trust.ts'

export interface Context {
  terminal: Terminal
  /** The command that may fail, for explaining failures. */
  about: About
  /** A sentence for each variable that was meant for this program but is not one of its own. */
  warnings: string[]
  /** The profile that `--profile` names. */
  profile?: string
  readonly env: Env
  /** Whether the command's calls wake a desktop that is asleep; by default the desktop's `wake_on` decides. */
  wake?: WakeWish | undefined
  /** Created when first needed: `--help` needs no service. */
  customer(wake?: WakeWish): Client
  /** A customer's client with a key that this program has made itself. */
  customerWith(apiKey: string): Client
  /** The service's address. */
  baseUrl(): string
  operator(): AdminClient
  /** Prints the document with `--json`, otherwise the text. */
  show(options: { json?: boolean }, document: object, text: () => string): void
}

/** `folders` are searched for the local service. */
export function createContext(terminal: Terminal, env: Env, folders: string[]): Context {
  const find = (field: KeyField) => {
    const found = findService({ env, folders, profile: context.profile }, field)
    trustMachine(found.baseUrl)
    context.about.urlOf = found.urlOf
    context.about.keyOf = found.keyOf
    return found
  }
  const context: Context = {
    terminal,
    about: {},
    warnings: misspelt(env),
    env,
    customer: (wake = context.wake) => {
      const { baseUrl, key, keyOf } = find('api_key')
      if (key?.startsWith(operatorPrefix)) throw wrongKey('DORMOUSE_API_KEY', 'an operator key')
      const apiKey = key ?? noKey('DORMOUSE_API_KEY', 'an API key', keyOf)
      return createClient({ baseUrl, apiKey, ...(wake && { wake }) })
    },
    customerWith: (apiKey) => createClient({ baseUrl: find('api_key').baseUrl, apiKey }),
    baseUrl: () => find('api_key').baseUrl,
    operator: () => {
      const { baseUrl, key, keyOf } = find('operator_key')
      if (key?.startsWith(customerPrefix)) throw wrongKey('DORMOUSE_OPERATOR_KEY', 'an API key of a customer')
      return createAdminClient({
        baseUrl,
        operatorKey: key ?? noKey('DORMOUSE_OPERATOR_KEY', 'an operator key', keyOf),
      })
    },
    show: (options, document, text) => terminal.write(options.json ? json(document) : text()),
  }
  return context
}

const customerPrefix = 'svc_sk_'
export const operatorPrefix = 'svc_op_'

/** The service would only return 401: it has no key of the other kind. */
function wrongKey(variable: string, what: string): CliError {
  const next =
    variable === 'DORMOUSE_API_KEY'
      ? `operator keys are for \`dormouse admin\`, in DORMOUSE_OPERATOR_KEY; \`dormouse admin key create --org <id>\` makes an API key`
      : 'API keys are for the other commands, in DORMOUSE_API_KEY; who runs the service has operator keys'
  return new CliError(`${variable} is ${what}, which this command does not take`, next, exitCodes.denied)
}

function noKey(variable: string, what: string, profile: string | undefined): never {
  const login = `\`dormouse login <url>${profile === undefined ? '' : ` --profile ${profile}`}\` keeps one`
  throw new CliError(
    profile === undefined
      ? `this command needs ${what}`
      : `the profile "${profile}" has no ${what.replace(/^an? /, '')}`,
    `${login}; or set ${variable}. For a local service, \`npm start\` writes it`,
    exitCodes.denied,
  )
}
