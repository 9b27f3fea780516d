// What every command gets: the terminal, and API clients. Created once, in main.ts.
import { type AdminClient, type Client, createAdminClient, createClient } from '@dormouse/client'
import { type About, CliError, exitCodes } from './failures.ts'
import { findService, misspelt } from './service.ts'
import { json, type Terminal } from './terminal.ts'

export interface Context {
  terminal: Terminal
  /** The command that may fail, for explaining failures. */
  about: About
  /** A sentence for each variable that was meant for this program and is none of its own. */
  warnings: string[]
  /** Created when first needed: `--help` needs no service. */
  customer(): Client
  /** A customer's client with a key that this program has made itself. */
  customerWith(apiKey: string): Client
  /** The service's address. */
  baseUrl(): string
  operator(): AdminClient
  /** Prints the document with `--json`, otherwise the text. */
  show(options: { json?: boolean }, document: object, text: () => string): void
}

/** `folders` are searched for the local service. */
export function createContext(terminal: Terminal, env: Record<string, string | undefined>, folders: string[]): Context {
  return {
    terminal,
    about: {},
    warnings: misspelt(env),
    customer: () => {
      const { baseUrl, apiKey } = findService(env, folders)
      return createClient({ baseUrl, apiKey: apiKey ?? noKey('DORMOUSE_API_KEY', 'an API key') })
    },
    customerWith: (apiKey) => createClient({ baseUrl: findService(env, folders).baseUrl, apiKey }),
    baseUrl: () => findService(env, folders).baseUrl,
    operator: () => {
      const { baseUrl, operatorKey } = findService(env, folders)
      return createAdminClient({
        baseUrl,
        operatorKey: operatorKey ?? noKey('DORMOUSE_OPERATOR_KEY', 'an operator key'),
      })
    },
    show: (options, document, text) => terminal.write(options.json ? json(document) : text()),
  }
}

function noKey(variable: string, what: string): never {
  throw new CliError(
    `this command needs ${what}`,
    `set ${variable}; for a local service, \`npm start\` writes it`,
    exitCodes.denied,
  )
}
