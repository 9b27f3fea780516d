// The data folder of one running instance: who holds it, its keys, and the page that tells others where it is.
import { accessSync, chmodSync, constants, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { alive, type Identity, identify } from '../ground/processes.ts'

export interface Keys {
  operatorKey: string
  orgId: string
  apiKey: string
}

export interface Instance {
  dir: string
  path(...parts: string[]): string
  keys(): Keys | undefined
  saveKeys(keys: Keys): void
  /** Says to the CLI and to tests that all is ready: renamed into place, so that it is whole or absent. */
  announce(baseUrl: string): void
  /** Takes the page back and lets go of the folder. */
  release(): void
}

/** Takes the folder for this process; throws when another starter holds it. */
export function openInstance(dir: string): Instance {
  // QEMU may be another user, who passes through to its disks; what is secret has a mode of its own.
  makeOwn(dir)
  const path = (...parts: string[]) => join(dir, ...parts)
  takeLock(path('starter.pid'), dir)
  rmSync(path('local.json'), { force: true })
  const keys = () => readJson<Keys>(path('keys.json'))
  return {
    dir,
    path,
    keys,
    saveKeys: (made) => writePrivate(path('keys.json'), made),
    announce: (baseUrl) => {
      const { operatorKey, apiKey, orgId } = keys()!
      writePrivate(path('local.json'), { base_url: baseUrl, api_key: apiKey, operator_key: operatorKey, org_id: orgId })
    },
    release: () => {
      rmSync(path('local.json'), { force: true })
      rmSync(path('starter.pid'), { force: true })
    },
  }
}

function makeOwn(dir: string): void {
  try {
    mkdirSync(dir, { recursive: true, mode: 0o711 })
    accessSync(dir, constants.W_OK)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code !== 'EACCES' && code !== 'EPERM') throw error
    throw new Error(`${dir} is not yours to write: set DORMOUSE_DATA to a folder that is`)
  }
}

function takeLock(file: string, dir: string): void {
  const holder = readJson<Identity>(file)
  if (holder && alive(holder)) {
    throw new Error(
      `${dir} is in use by process ${holder.pid}; stop it, or set DORMOUSE_DATA and PORT for a second instance`,
    )
  }
  writePrivate(file, identify(process.pid)!)
}

/** Undefined where there is none or it is not whole. */
export function readJson<T>(file: string): T | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as T
  } catch {
    return undefined
  }
}

function writePrivate(file: string, value: object): void {
  const temporary = `${file}.${process.pid}`
  writeFileSync(temporary, `${JSON.stringify(value, null, 2)}\n`, { mode: 0o600 })
  chmodSync(temporary, 0o600)
  renameSync(temporary, file)
}
