// The data folder of an instance: which run has it, its keys, and `local.json`, by which others find it.
import { accessSync, chmodSync, constants, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { makeFolder, whyNotStarted } from '@dormouse/process'
import { alive, type Identity, identify } from '../testbed/processes.ts'

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
  /** Writes `local.json` for the CLI and the tests: the instance is ready. The file is whole or absent. */
  announce(baseUrl: string): void
  /** Removes `local.json` and frees the folder. */
  release(): void
}

/** Takes the folder for this process. Throws if another run has it. */
export function openInstance(dir: string): Instance {
  // QEMU may run as another user, and must reach its disks through this folder. Secret files have their own mode.
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
    makeFolder(dir, 0o711)
    accessSync(dir, constants.W_OK)
  } catch (error) {
    const why = whyNotStarted(error, { DORMOUSE_DATA: dir })
    throw why ? new Error(why) : error
  }
}

function takeLock(file: string, dir: string): void {
  const holder = readJson<Identity>(file)
  if (holder && alive(holder)) {
    throw new Error(
      `${dir} is in use by process ${holder.pid}; stop it, or set DORMOUSE_DATA and PORT to run a second instance`,
    )
  }
  writePrivate(file, identify(process.pid)!)
}

/** Undefined if the file is missing or not whole. */
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
