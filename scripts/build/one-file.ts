// How an app becomes one file that a plain Node 24 runs.
import type { BuildOptions } from 'esbuild'
import { withPictureWorker } from './picture-worker.ts'

/** CommonJS parts of the bundle need `require` for Node's own modules. */
const banner = `import { createRequire as requireFrom } from 'node:module'\nconst require = requireFrom(import.meta.url)`

export const oneFile = {
  bundle: true,
  platform: 'node',
  target: 'node24',
  format: 'esm',
  banner: { js: banner },
  define: { __dirname: 'import.meta.dirname' },
  // Optional native parts; their packages work without them.
  external: ['pg-native', 'bufferutil', 'utf-8-validate', 'cpu-features', '*.node'],
  plugins: [withPictureWorker],
} satisfies BuildOptions
