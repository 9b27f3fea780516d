// Finds the service's address and key: in a profile or the environment, otherwise in the local.json that `npm start` wrote.
import { dirname, join } from 'node:path'
import { didYouMean } from '@dormouse/contract/nearest'
import { unknownVariables } from '@dormouse/contract/variables'
import { CliError, exitCodes } from './failures.ts'
import { type Env, type KeptService, type KeyField, profileNames, readKept, readProfile } from './profiles.ts'

export interface Service {
  baseUrl: string
  key?: string
  /** The profile that the address, or the key, is from. */
  urlOf?: string
  keyOf?: string
}

const variables = ['DORMOUSE_URL', 'DORMOUSE_API_KEY', 'DORMOUSE_OPERATOR_KEY', 'DORMOUSE_PROFILE', 'DORMOUSE_DATA']
const variableOf = { api_key: 'DORMOUSE_API_KEY', operator_key: 'DORMOUSE_OPERATOR_KEY' } as const
/** Variables of other programs, which people keep in the same shell. Those of an agent all begin with `DORMOUSE_AGENT_`. */
const ofOthers = ['DORMOUSE_IMAGES_DIR', 'DORMOUSE_CLI']
/** The profile of those who name none. */
export const defaultProfile = 'default'

/** A sentence for each variable that was meant as one of ours. */
export const misspelt = (env: Env): string[] =>
  unknownVariables(env, variables, [
    ...ofOthers,
    ...Object.keys(env).filter((name) => /^DORMOUSE_(AGENT|TEST)_/.test(name)),
  ])

export interface Where {
  env: Env
  /** Searched for the local service. */
  folders: string[]
  /** The one that `--profile` names; it takes nothing from the environment. */
  profile?: string
}

/** The service of `--profile`; otherwise the environment's; otherwise that of a profile, or the nearest local one. */
export function findService({ env, folders, profile }: Where, field: KeyField): Service {
  const [envUrl, envKey] = profile === undefined ? [env.DORMOUSE_URL, env[variableOf[field]]] : []
  if (envUrl && envKey) return { baseUrl: envUrl, key: envKey }
  const found = firstKept({ env, folders, profile }, envUrl)
  const baseUrl = envUrl || found?.service.base_url
  if (!baseUrl) throw noService()
  return {
    baseUrl,
    key: envKey || found?.service[field],
    urlOf: envUrl ? undefined : found?.profile,
    keyOf: envKey ? undefined : found?.profile,
  }
}

interface Kept {
  service: KeptService
  /** Undefined for a local.json. */
  profile?: string
}

/** A key that is kept is never sent to another address that the environment names. */
function firstKept(where: Where, envUrl: string | undefined): Kept | undefined {
  for (const kept of keptServices(where)) if (!envUrl || isSame(kept.service.base_url, envUrl)) return kept
  return undefined
}

const isSame = (one: string, other: string): boolean => one.replace(/\/+$/, '') === other.replace(/\/+$/, '')

/** What is kept on this machine, the first choice first. */
function* keptServices({ env, folders, profile = env.DORMOUSE_PROFILE || undefined }: Where): Generator<Kept> {
  if (profile !== undefined) return yield { service: requireProfile(env, profile), profile }
  if (env.DORMOUSE_DATA) {
    const service = readKept(join(env.DORMOUSE_DATA, 'local.json'))
    if (service) yield { service }
    else if (!env.DORMOUSE_URL) throw noService(`there is no local.json in DORMOUSE_DATA (${env.DORMOUSE_DATA})`)
    return
  }
  const usual = readProfile(env, defaultProfile)
  if (usual) yield { service: usual, profile: defaultProfile }
  for (const folder of folders.flatMap(upwards)) {
    const service = readKept(join(folder, '.dormouse', 'local.json'))
    if (service) return yield { service }
  }
}

function requireProfile(env: Env, name: string): KeptService {
  const found = readProfile(env, name)
  if (found) return found
  throw new CliError(
    `there is no profile ${JSON.stringify(name)}${didYouMean(name, profileNames(env))}`,
    'make one with `dormouse login <url> --profile <name>`; `dormouse profiles` lists those that there are',
    exitCodes.usage,
  )
}

/** The folder and all above it, nearest first. */
function upwards(folder: string): string[] {
  const parent = dirname(folder)
  return parent === folder ? [folder] : [folder, ...upwards(parent)]
}

function noService(
  what = 'no service found: there is no profile, DORMOUSE_URL is not set, and there is no .dormouse/local.json in this folder or above',
): CliError {
  return new CliError(
    what,
    '`dormouse login <url>` keeps the address of a service and your key; or set DORMOUSE_URL and DORMOUSE_API_KEY, or start a service of your own with `npm start` in the clone',
    exitCodes.unavailable,
  )
}
