// Bundles an app into one file that a plain Node 24 runs.
import { cpSync, existsSync, globSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { oneFile } from './one-file.ts'
import { ensureSdk } from './sdk.ts'
import { ensureViewer } from './viewer.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))

/** Files that the program reads at run time: the source file that reads each, where it comes from, and where it goes. */
const beside = [
  ['src/db/migrations', 'src/db/migrations', 'migrations'],
  ['src/streams/page.ts', '../viewer/dist', 'viewer'],
  ...['swagger-ui.css', 'swagger-ui-bundle.js'].map(
    (name) =>
      ['src/http/reading-page.ts', `../../node_modules/@fastify/swagger-ui/static/${name}`, `docs/${name}`] as const,
  ),
] as const

/** Writes the app's bundle and what it reads into the folder: the same bytes wherever the folder is. */
export async function bundle(app: string, folder: string): Promise<void> {
  const source = join(root, app)
  if (existsSync(join(source, 'src/streams/page.ts'))) await ensureViewer({ say: console.error })
  const { outputFiles } = await build({
    stdin: { contents: entry(source), resolveDir: source, sourcefile: 'entry.ts', loader: 'ts' },
    absWorkingDir: source,
    outfile: join(source, 'dist/main.js'),
    write: false,
    ...oneFile,
    sourcemap: true,
    sourcesContent: false,
    logLevel: 'warning',
  })
  mkdirSync(folder, { recursive: true })
  for (const { path, contents } of outputFiles) writeFileSync(join(folder, basename(path)), contents)
  for (const [reader, from, to] of beside)
    if (existsSync(join(source, reader)))
      cpSync(join(source, from), join(folder, to), {
        recursive: true,
        filter: (path) => basename(path) !== '.built-from',
      })
}

/** A program with a bin/ folder is started from there; its bundle must start it, too. */
function entry(source: string): string {
  return existsSync(join(source, 'bin'))
    ? `import { main } from './src/main.ts'\nawait main()`
    : `import './src/main.ts'`
}

if (import.meta.main) {
  const app = relative(root, process.cwd())
  // What the control plane serves takes longer than the rest, and changes less often.
  for (const old of globSync('dist/*')) if (basename(old) !== 'sdk') rmSync(old, { recursive: true, force: true })
  await bundle(app, 'dist')
  if (existsSync('src/http/packages.ts')) await ensureSdk(console.log)
}
