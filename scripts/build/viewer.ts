// Builds the viewer, the page that shows a desktop, if its sources changed since the last build.
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { run, type Say } from '../testbed/processes.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const viewer = join(root, 'apps/viewer')

/** Leaves the built page in apps/viewer/dist. Takes less than a second, and nothing if it is up to date. */
export async function ensureViewer({ say }: { say: Say }): Promise<void> {
  const now = fingerprint()
  const stamp = join(viewer, 'dist/.built-from')
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === now) return
  const made = join(viewer, `.dormouse-build-${process.pid}`)
  const vite = join(root, 'node_modules/vite/bin/vite.js')
  try {
    await run(process.execPath, [vite, 'build', '--outDir', made, '--logLevel', 'warn'], { cwd: viewer })
    writeFileSync(join(made, '.built-from'), now)
    rmSync(join(viewer, 'dist'), { recursive: true, force: true })
    renameSync(made, join(viewer, 'dist'))
  } finally {
    rmSync(made, { recursive: true, force: true })
  }
  say('Built the viewer')
}

/** Covers everything the page is built from: its files, what it imports, and the versions of its tools. */
function fingerprint(): string {
  const files = ['src', 'public']
    .flatMap((folder) => readdirSync(join(viewer, folder)).map((name) => join(viewer, folder, name)))
    .concat(['index.html', 'vite.config.ts', 'package.json'].map((name) => join(viewer, name)))
    .concat(join(root, 'packages/contract/src/screens.ts'))
  const hash = createHash('sha256')
  for (const file of files.sort()) hash.update(file.slice(root.length)).update(readFileSync(file))
  return hash.digest('hex')
}
