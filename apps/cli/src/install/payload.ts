// What goes onto a host: files of a built clone, each with the place where scripts/install-agent looks for it.
import { createHash } from 'node:crypto'
import { createReadStream, existsSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { CliError } from '../failures.ts'

export interface PayloadFile {
  /** Its path on this machine. */
  source: string
  /** Below the folder that is made on the host; as in a clone. */
  path: string
  /** The path where the installer puts it. A copy that is there need not be sent. */
  installed?: string
  mode: string
  bytes: number
  sha256: string
}

const files: [path: string, mode: string, installed?: string][] = [
  ['scripts/install-agent', '755'],
  ['node_modules/node/bin/node', '755', '/opt/dormouse/bin/node'],
  ['apps/agent/dist/main.js', '644', '/opt/dormouse/agent/main.js'],
  ['apps/agent/dist/main.js.map', '644', '/opt/dormouse/agent/main.js.map'],
  ['infra/systemd/dormouse-agent.service', '644', '/etc/systemd/system/dormouse-agent.service'],
]

/** Reads the files of a clone; `from` is its folder, by default the one that this program is in. */
export function readPayload(from: string | undefined): Promise<PayloadFile[]> {
  return read(from, files)
}

/** The installer's script alone: to uninstall, nothing has to be built. */
export function readInstaller(from: string | undefined): Promise<PayloadFile[]> {
  return read(from, files.slice(0, 1))
}

function read(from: string | undefined, wanted: typeof files): Promise<PayloadFile[]> {
  const folder = from ?? cloneAbove(import.meta.dirname)
  return Promise.all(
    wanted.map(async ([path, mode, installed]) => {
      const source = join(folder, path)
      if (!existsSync(source)) throw missing(folder, path)
      const [{ size: bytes }, sha256] = await Promise.all([stat(source), hashOf(source)])
      return { source, path, mode, bytes, sha256, ...(installed && { installed }) }
    }),
  )
}

function cloneAbove(folder: string): string {
  if (existsSync(join(folder, 'scripts/install-agent'))) return folder
  if (dirname(folder) === folder)
    throw new CliError(
      'this program is not in a clone, so it has no agent to install',
      'name a built clone with --from',
    )
  return cloneAbove(dirname(folder))
}

function missing(folder: string, path: string): CliError {
  const next = path.includes('/dist/')
    ? 'run `npm run build` there'
    : 'name a clone with --from; `npm ci` gets its packages'
  return new CliError(`${join(folder, path)} is missing`, next)
}

async function hashOf(file: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(file), hash)
  return hash.digest('hex')
}
