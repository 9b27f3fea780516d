// Finds the service's address and keys: in the environment, otherwise in the local.json that `npm start` wrote.
import { readFileSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { unknownVariables } from '@dormouse/contract'
import { CliError, exitCodes } from './failures.ts'

export interface Service {
  baseUrl: string
  apiKey?: string
  operatorKey?: string
}

interface LocalService {
  base_url: string
  api_key?: string
  operator_key?: string
}

type Env = Record<string, string | undefined>

const variables = ['DORMOUSE_URL', 'DORMOUSE_API_KEY', 'DORMOUSE_OPERATOR_KEY', 'DORMOUSE_DATA']
/** Variables of other programs, which people keep in the same shell. Those of an agent all begin with `DORMOUSE_AGENT_`. */
const ofOthers = ['DORMOUSE_IMAGES_DIR', 'DORMOUSE_CLI']

/** A sentence for each variable that was meant as one of ours. */
export const misspelt = (env: Env): string[] =>
  unknownVariables(env, variables, [
    ...ofOthers,
    ...Object.keys(env).filter((name) => /^DORMOUSE_(AGENT|TEST)_/.test(name)),
  ])

/** The service that the environment names; otherwise the local one whose `local.json` is nearest to `folders`. */
export function findService(env: Env, folders: string[]): Service {
  const local = readLocal(env, folders)
  const baseUrl = env.DORMOUSE_URL || local?.base_url
  if (!baseUrl) throw noService()
  // A local key is never sent to another address that the environment names.
  const trusted = local?.base_url === baseUrl ? local : undefined
  return {
    baseUrl,
    apiKey: env.DORMOUSE_API_KEY || trusted?.api_key,
    operatorKey: env.DORMOUSE_OPERATOR_KEY || trusted?.operator_key,
  }
}

function readLocal(env: Env, folders: string[]): LocalService | undefined {
  if (env.DORMOUSE_DATA) {
    const found = readFile(join(env.DORMOUSE_DATA, 'local.json'))
    if (!found && !env.DORMOUSE_URL) throw noService(`there is no local.json in DORMOUSE_DATA (${env.DORMOUSE_DATA})`)
    return found
  }
  for (const folder of folders.flatMap(upwards)) {
    const found = readFile(join(folder, '.dormouse', 'local.json'))
    if (found) return found
  }
  return undefined
}

/** The folder and all above it, nearest first. */
function upwards(folder: string): string[] {
  const parent = dirname(folder)
  return parent === folder ? [folder] : [folder, ...upwards(parent)]
}

function readFile(file: string): LocalService | undefined {
  try {
    checkOwner(file)
    return parse(file, readFileSync(file, 'utf8'))
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined
    if (code === 'EACCES')
      throw new CliError(
        `${file} is readable only by the user who started the service`,
        'run dormouse as that user, or set DORMOUSE_URL and DORMOUSE_API_KEY',
      )
    throw error
  }
}

/** A file that another user left in a shared folder must not decide where commands and their input go. */
function checkOwner(file: string): void {
  const { uid } = statSync(file)
  const me = process.getuid?.()
  if (me === undefined || me === 0 || uid === me || uid === 0) return
  throw new CliError(
    `${file} belongs to another user (uid ${uid}) and is not trusted`,
    'set DORMOUSE_URL and DORMOUSE_API_KEY',
  )
}

function parse(file: string, text: string): LocalService {
  const { base_url, api_key, operator_key } = parseJson(text)
  if (typeof base_url === 'string' && isKey(api_key) && isKey(operator_key)) return { base_url, api_key, operator_key }
  throw new CliError(`${file} is not a valid local.json`, 'restart the service with `npm start`, or set DORMOUSE_URL')
}

function parseJson(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text)
    return Object(value) as Record<string, unknown>
  } catch {
    return {}
  }
}

function isKey(value: unknown): value is string | undefined {
  return value === undefined || typeof value === 'string'
}

function noService(
  what = 'no service found: DORMOUSE_URL is not set, and there is no .dormouse/local.json in this folder or above',
): CliError {
  return new CliError(
    what,
    'start one with `npm start` in the clone, or set DORMOUSE_URL and DORMOUSE_API_KEY',
    exitCodes.unavailable,
  )
}
