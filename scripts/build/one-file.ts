// How an app becomes one file that a plain Node 24 runs.
import { spawnSync } from 'node:child_process'
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
  define: { __dirname: 'import.meta.dirname', DORMOUSE_COMMIT: JSON.stringify(commit()) },
  // Optional native parts; their packages work without them.
  external: ['pg-native', 'bufferutil', 'utf-8-validate', 'cpu-features', '*.node'],
  plugins: [withPictureWorker],
} satisfies BuildOptions

/** The commit that is built, marked if files differ from it. A folder without Git has none. */
function commit(): string {
  const words = ['describe', '--always', '--dirty', '--abbrev=12', '--exclude=*']
  const { stdout } = spawnSync('git', words, { cwd: import.meta.dirname, encoding: 'utf8' })
  return stdout?.trim() || 'unknown'
}
