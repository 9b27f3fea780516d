// Builds the npm packages that a control plane serves, if their sources changed since the last build.
import { createHash } from 'node:crypto'
import { existsSync, globSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { packNpm } from '../release/npm.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const served = join(root, 'apps/control-plane/dist/sdk')

/** Leaves them in the folder. Takes ten seconds, and nothing if they are up to date. */
export async function ensureSdk(say: (words: string) => void, folder = served): Promise<void> {
  const now = fingerprint()
  const stamp = join(folder, '.built-from')
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === now) return
  const made = `${folder}.${process.pid}`
  mkdirSync(made, { recursive: true })
  try {
    await packNpm(made, say)
    writeFileSync(join(made, '.built-from'), now)
    rmSync(folder, { recursive: true, force: true })
    renameSync(made, folder)
  } finally {
    rmSync(made, { recursive: true, force: true })
  }
}

/** Covers all that the packages are built from: sources, what npm has installed, and how they are built. */
function fingerprint(): string {
  const folders = ['packages/{client,contract,mcp,process}', 'apps/cli', 'scripts/{build,release}']
  const files = globSync(
    folders.flatMap((folder) => [`${folder}/src/**/*.ts`, `${folder}/*.{ts,json,md}`]),
    { cwd: root },
  )
  const hash = createHash('sha256')
  for (const file of [...files, 'package-lock.json'].sort()) hash.update(file).update(readFileSync(join(root, file)))
  return hash.digest('hex')
}

if (import.meta.main) await ensureSdk(() => undefined)
