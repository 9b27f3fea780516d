// The pinned build of an earlier release: its programs as they were, without that release's source or packages.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { brotliCompressSync, brotliDecompressSync, constants } from 'node:zlib'

/** Texts by their path. */
type Files = Record<string, string>

/** Until there is a tag, this commit is the release before. */
export const releaseBefore = 'afc410b'

export const pinnedFile = (commit: string): string => fileURLToPath(new URL(`${commit}.json.br`, import.meta.url))

export const pack = (files: Files): Buffer => {
  const text = JSON.stringify(Object.fromEntries(Object.entries(files).sort()))
  // The two programs share most of their packages, so the window covers both.
  const params = { [constants.BROTLI_PARAM_LGWIN]: 24, [constants.BROTLI_PARAM_QUALITY]: 11 }
  return brotliCompressSync(text, { params })
}

export const unpack = (packed: Buffer): Files => JSON.parse(brotliDecompressSync(packed).toString()) as Files

/** Writes the programs of the release before into the folder: `agent/main.js` and `control-plane/main.js`. */
export function unpackRelease(folder: string): void {
  for (const [path, text] of Object.entries(unpack(readFileSync(pinnedFile(releaseBefore))))) {
    const file = join(folder, path)
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, text)
  }
}

export function filesIn(folder: string): Files {
  const paths = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
  const files = paths.map(({ parentPath, name }) => join(parentPath, name))
  return Object.fromEntries(files.map((file) => [file.slice(folder.length + 1), readFileSync(file, 'utf8')]))
}
