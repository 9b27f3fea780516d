// Bundles the app of the current folder into one file that a plain Node 24 runs.
import { cpSync, existsSync, rmSync } from 'node:fs'
import { build } from 'esbuild'
import { withPictureWorker } from './picture-worker.ts'
import { ensureViewer } from './viewer.ts'

/** CommonJS parts of the bundle need `require` for Node's own modules. */
const banner = `import { createRequire as requireFrom } from 'node:module'\nconst require = requireFrom(import.meta.url)`

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
rmSync('dist', { recursive: true, force: true })
await build({
  stdin: { contents: entry(), resolveDir: process.cwd(), sourcefile: 'entry.ts', loader: 'ts' },
  outfile: 'dist/main.js',
  bundle: true,
  platform: 'node',
  target: 'node24',
  format: 'esm',
  sourcemap: true,
  sourcesContent: false,
  banner: { js: banner },
  define: { __dirname: 'import.meta.dirname' },
  // Optional native parts; their packages work without them.
  external: ['pg-native', 'bufferutil', 'utf-8-validate', 'cpu-features', '*.node'],
  plugins: [withPictureWorker],
  logLevel: 'warning',
})
for (const [reader, from, to] of beside) if (existsSync(reader)) cpSync(from, to, { recursive: true })

/** A program with a bin/ folder is started from there; its bundle must start it, too. */
function entry(): string {
  return existsSync('bin') ? `import { main } from './src/main.ts'\nawait main()` : `import './src/main.ts'`
}
