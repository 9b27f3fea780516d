// The vaults that this host knows: a folder with one file for each. A file has the environment of restic, as an operator would
// write it for a shell or a unit: RESTIC_REPOSITORY, RESTIC_PASSWORD, and what the repository's server needs. Its name is the
// vault's name, so the same file on every host is the same vault.
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parseEnv } from 'node:util'
import { vaultName, vaultsMax } from '@dormouse/contract'
import { unlessMissing } from '../mechanics/durable-file.ts'

export interface Vault {
  name: string
  /** For restic alone; has secrets. */
  environment: Readonly<Record<string, string>>
  /** Words before restic's command, such as `-o sftp.command=…`. */
  words: readonly string[]
}

/** Why a file is no vault; a sentence for the operator. */
export interface NotVault {
  name: string
  why: string
}

const end = '.env'
/** restic's own, its servers', and the proxy of both. Others could run programs or read other files. */
const allowed = /^(?:RESTIC_(?:REPOSITORY|PASSWORD|PASSWORD_FILE|CACERT|LIMIT_\w+)|AWS_\w+|HTTPS?_PROXY|NO_PROXY)$/

/** Throws nothing: a file that cannot be used is told, and the others are used. */
export async function readVaults(folder: string): Promise<{ vaults: Vault[]; refused: NotVault[] }> {
  const names = ((await readdir(folder).catch(unlessMissing)) ?? []).filter((name) => name.endsWith(end)).sort()
  const found = await Promise.all(names.slice(0, vaultsMax).map((file) => readVault(folder, file)))
  const beyond = names.slice(vaultsMax).map((file) => ({ name: file, why: `there are more than ${vaultsMax} vaults` }))
  return {
    vaults: found.filter((one) => 'environment' in one),
    refused: [...found.filter((one) => 'why' in one), ...beyond],
  }
}

async function readVault(folder: string, file: string): Promise<Vault | NotVault> {
  const name = file.slice(0, -end.length)
  if (!vaultName.safeParse(name).success)
    return { name: file, why: 'a name has up to 32 lower-case letters, digits and `-`, and ends in .env' }
  try {
    return vaultFrom(name, parseEnv(await readFile(join(folder, file), 'utf8')))
  } catch (error) {
    return { name, why: `it cannot be read: ${(error as Error).message}` }
  }
}

function vaultFrom(name: string, given: NodeJS.Dict<string>): Vault | NotVault {
  const { DORMOUSE_SFTP_COMMAND: sftpCommand, ...rest } = given
  const environment = Object.fromEntries(Object.entries(rest).filter((pair): pair is [string, string] => !!pair[1]))
  const unknown = Object.keys(environment).find((key) => !allowed.test(key))
  if (unknown) return { name, why: `${unknown} is not a setting of a vault` }
  if (!environment.RESTIC_REPOSITORY) return { name, why: 'RESTIC_REPOSITORY is missing' }
  if (!environment.RESTIC_PASSWORD && !environment.RESTIC_PASSWORD_FILE)
    return { name, why: 'RESTIC_PASSWORD or RESTIC_PASSWORD_FILE is missing' }
  return { name, environment, words: sftpCommand ? ['-o', `sftp.command=${sftpCommand}`] : [] }
}
