// What every command gets: the ways out, and the clients for whoever may ask. Made once, in main.ts.
import { type AdminClient, type Client, createAdminClient, createClient } from '@dormouse/client'
import { type About, CliError, exitCodes } from './failures.ts'
import { findService } from './service.ts'
import { json, type Terminal } from './terminal.ts'

export interface Context {
  terminal: Terminal
  /** What a failure would be about: the command, its desktop, and whether a program asked. */
  about: About
  /** Made when first needed: `--help` needs no service. */
  customer(): Client
  operator(): AdminClient
  /** The document where `--json` was given, else text for people. */
  show(options: { json?: boolean }, document: object, text: () => string): void
}

/** Joins the parts; `folders` are where the local service is looked for. */
export function createContext(terminal: Terminal, env: Record<string, string | undefined>, folders: string[]): Context {
  return {
    terminal,
    about: {},
    customer: () => {
      const { baseUrl, apiKey } = findService(env, folders)
      return createClient({ baseUrl, apiKey: apiKey ?? noKey('DORMOUSE_API_KEY', 'an API key') })
    },
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
  throw new CliError(`this command needs ${what} for the service.`, `set ${variable}.`, exitCodes.denied)
}
