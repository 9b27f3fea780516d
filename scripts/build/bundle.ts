// Bundles the app of the current folder into one file that a plain Node 24 runs.
import { cpSync, existsSync, globSync, rmSync } from 'node:fs'
import { basename } from 'node:path'
import { build } from 'esbuild'
import { oneFile } from './one-file.ts'
import { ensureSdk } from './sdk.ts'
import { ensureViewer } from './viewer.ts'

/** Files that the program reads at run time: the source file that reads each, where it comes from, and where it goes. */
const beside = [
  ['src/db/migrations', 'src/db/migrations', 'dist/migrations'],
  ['src/streams/page.ts', '../viewer/dist', 'dist/viewer'],
  ...['swagger-ui.css', 'swagger-ui-bundle.js'].map(
    (name) =>
      [
        'src/http/reading-page.ts',
        `../../node_modules/@fastify/swagger-ui/static/${name}`,
        `dist/docs/${name}`,
      ] as const,
  ),
] as const

if (existsSync('src/streams/page.ts')) await ensureViewer({ say: console.log })
// What the control plane serves takes longer than the rest, and changes less often.
for (const old of globSync('dist/*')) if (basename(old) !== 'sdk') rmSync(old, { recursive: true, force: true })
await build({
  stdin: { contents: entry(), resolveDir: process.cwd(), sourcefile: 'entry.ts', loader: 'ts' },
  outfile: 'dist/main.js',
  ...oneFile,
  sourcemap: true,
  sourcesContent: false,
  logLevel: 'warning',
})
if (existsSync('src/http/packages.ts')) await ensureSdk(console.log)
for (const [reader, from, to] of beside) if (existsSync(reader)) cpSync(from, to, { recursive: true })

/** A program with a bin/ folder is started from there; its bundle must start it, too. */
function entry(): string {
  return existsSync('bin') ? `import { main } from './src/main.ts'\nawait main()` : `import './src/main.ts'`
}
