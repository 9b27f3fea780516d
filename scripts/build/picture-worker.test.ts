// Guarantee: the agent's bundle, one file without node_modules, makes pictures.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { expect, test } from 'vitest'
import { oneFile } from './one-file.ts'

const encoder = fileURLToPath(new URL('../../apps/agent/src/input/picture-encoder.ts', import.meta.url))
const program = `import { PictureEncoder } from ${JSON.stringify(encoder)}
const encoder = new PictureEncoder()
const keep = setInterval(() => {}, 1_000)
const size = { width: 16, height: 16 }
const caller = { share: '', signal: new AbortController().signal }
for (const format of ['jpeg', 'png']) {
  const request = { ...size, size, pixels: new ArrayBuffer(16 * 16 * 4), format, quality: 80 }
  console.log((await encoder.make(caller, () => request)).toString('hex', 0, 3))
}
clearInterval(keep)
encoder.close()`

test('a bundle makes a JPEG and a PNG on a thread that is part of its one file', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'dormouse-bundle-'))
  try {
    const outfile = join(folder, 'main.mjs')
    await build({ ...oneFile, outfile, stdin: { contents: program, resolveDir: folder } })
    expect(execFileSync(process.execPath, [outfile], { cwd: folder, encoding: 'utf8' })).toBe('ffd8ff\n89504e\n')
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})
