// Guarantee: the agent's bundle, one file without node_modules, encodes JPEG.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { expect, test } from 'vitest'
import { withJpegWorker } from './jpeg-worker.ts'

const encoder = fileURLToPath(new URL('../../apps/agent/src/input/jpeg.ts', import.meta.url))
const program = `import { JpegEncoder } from ${JSON.stringify(encoder)}
const jpegs = new JpegEncoder()
const keep = setInterval(() => {}, 1_000)
const rgba = new ArrayBuffer(16 * 16 * 4)
console.log((await jpegs.encode({ width: 16, height: 16, rgba, quality: 80 })).toString('hex', 0, 3))
clearInterval(keep)
jpegs.close()`

test('a bundle encodes a JPEG on a thread that is part of its one file', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'dormouse-bundle-'))
  try {
    const outfile = join(folder, 'main.mjs')
    await build({
      ...{ outfile, bundle: true, platform: 'node', target: 'node24', format: 'esm', plugins: [withJpegWorker] },
      stdin: { contents: program, resolveDir: folder },
    })
    expect(execFileSync(process.execPath, [outfile], { cwd: folder, encoding: 'utf8' })).toBe('ffd8ff\n')
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})
