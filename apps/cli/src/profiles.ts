// What is kept of services: the profiles of `dormouse login`, one file for each in the user's configuration folder, and the
// local.json of `npm start`. Knows no service.
import { randomUUID } from 'node:crypto'
import { chmodSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { basename, isAbsolute, join } from 'node:path'
import { CliError, exitCodes } from './failures.ts'

/** What a profile and a local.json hold. */
export interface KeptService {
  base_url: string
  api_key?: string
  operator_key?: string
}

export type KeyField = 'api_key' | 'operator_key'

export type Env = Record<string, string | undefined>

/** Undefined if the user has no configuration folder. */
function folderOf({ XDG_CONFIG_HOME: config = '', HOME, USERPROFILE }: Env): string | undefined {
  if (isAbsolute(config)) return join(config, 'dormouse')
  const home = HOME || USERPROFILE
  return home ? join(home, '.config', 'dormouse') : undefined
}

const foldersOf = (env: Env): string[] => {
  const folder = folderOf(env)
  return folder === undefined ? [] : [folder, join(folder, 'profiles')]
}

/** The file of a profile; undefined if the user has no configuration folder. */
function profileFile(env: Env, name: string): string | undefined {
  if (!/^\w[\w.-]{0,62}$/.test(name))
    throw new CliError(
      `${JSON.stringify(name)} cannot be the name of a profile`,
      'use up to 63 letters, digits, "-", "_" and ".", the first a letter or digit',
      exitCodes.usage,
    )
  const folder = foldersOf(env).at(-1)
  return folder === undefined ? undefined : join(folder, `${name}.json`)
}

/** The names of all profiles. */
export function profileNames(env: Env): string[] {
  const folder = foldersOf(env).at(-1)
  if (folder === undefined) return []
  try {
    return readdirSync(folder)
      .filter((name) => /^\w[\w.-]*\.json$/.test(name))
      .map((name) => name.slice(0, -'.json'.length))
      .sort()
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return []
    throw error
  }
}

/** Keeps a profile so that only this user can read it; returns its file. */
export function writeProfile(env: Env, name: string, service: KeptService): string {
  const file = profileFile(env, name)
  if (file === undefined)
    throw new CliError('there is no folder for profiles', 'set HOME, or XDG_CONFIG_HOME to an absolute path')
  for (const folder of foldersOf(env)) {
    mkdirSync(folder, { recursive: true })
    chmodSync(folder, 0o700)
  }
  // Under its name there is always a whole file.
  const temporary = `${file}.${randomUUID()}`
  writeFileSync(temporary, `${JSON.stringify(service, null, 2)}\n`, { mode: 0o600, flag: 'wx' })
  renameSync(temporary, file)
  return file
}

/** Whether there was one. */
export function removeProfile(env: Env, name: string): boolean {
  if (!profileNames(env).includes(name)) return false
  rmSync(profileFile(env, name)!)
  return true
}

/** Undefined if there is no such profile. */
export const readProfile = (env: Env, name: string): KeptService | undefined => {
  const file = profileFile(env, name)
  return file === undefined ? undefined : readKept(file)
}

/** A profile, or a local.json; undefined if there is no such file. */
export function readKept(file: string): KeptService | undefined {
  try {
    checkOwner(file)
    return parse(file, readFileSync(file, 'utf8'))
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined
    if (code === 'EACCES')
      throw new CliError(
        `this user may not read ${file}`,
        'run dormouse as the user who made it, or set DORMOUSE_URL and DORMOUSE_API_KEY',
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

function parse(file: string, text: string): KeptService {
  const { base_url, api_key, operator_key } = parseJson(text)
  if (typeof base_url === 'string' && isKey(api_key) && isKey(operator_key)) return { base_url, api_key, operator_key }
  throw new CliError(
    `${file} is damaged`,
    basename(file) === 'local.json'
      ? 'restart the service with `npm start`, or set DORMOUSE_URL'
      : 'remove it, then `dormouse login <url>`',
  )
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
