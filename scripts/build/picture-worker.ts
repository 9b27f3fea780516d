// Puts the thread that makes the agent's pictures into its bundle, which is one file: as a text to evaluate, with the machine code of the JPEG encoder in it.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { build, type Plugin } from 'esbuild'

/** As the agent finds it. */
const wasmFor = (file: string) => readFileSync(createRequire(file).resolve('@jsquash/jpeg/codec/enc/mozjpeg_enc.wasm'))

const withWasm: Plugin = {
  name: 'jpeg-wasm',
  setup: ({ onLoad }) => {
    onLoad({ filter: /\/input\/jpeg-wasm\.ts$/ }, ({ path }) => ({
      contents: `export const jpegWasm = Buffer.from('${wasmFor(path).toString('base64')}', 'base64')`,
    }))
  },
}

/** Replaces the file that names the thread's first file. */
export const withPictureWorker: Plugin = {
  name: 'picture-worker',
  setup: ({ onLoad }) => {
    onLoad({ filter: /\/input\/picture-worker-start\.ts$/ }, async ({ path }) => {
      const { outputFiles } = await build({
        entryPoints: [path.replace('-start.ts', '.ts')],
        bundle: true,
        write: false,
        minify: true,
        platform: 'node',
        target: 'node24',
        // Node evaluates no other format.
        format: 'cjs',
        logOverride: { 'empty-import-meta': 'silent' },
        plugins: [withWasm],
      })
      return { contents: `export const pictureWorker = { start: ${JSON.stringify(outputFiles[0]!.text)}, eval: true }` }
    })
  },
}
