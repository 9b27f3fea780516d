// Bundles the app in whose folder it runs into one file that a plain Node 24 runs. Knows no app but by what it needs.
import { cpSync, existsSync, rmSync } from 'node:fs'
import { build } from 'esbuild'
import { ensureViewer } from './viewer.ts'

/** Put in by hand: CommonJS parts of the bundle ask for Node's own modules by `require`. */
const banner = `import { createRequire as requireFrom } from 'node:module'\nconst require = requireFrom(import.meta.url)`

/** Files that are read at run time from beside the program, where the app has what reads them. */
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
  // Optional native parts, which their packages do without.
  external: ['pg-native', 'bufferutil', 'utf-8-validate', 'cpu-features', '*.node'],
  logLevel: 'warning',
})
for (const [reader, from, to] of beside) if (existsSync(reader)) cpSync(from, to, { recursive: true })

/** A program with a door of its own (bin/) is started there; its bundle starts itself. */
function entry(): string {
  return existsSync('bin') ? `import { main } from './src/main.ts'\nawait main()` : `import './src/main.ts'`
}
