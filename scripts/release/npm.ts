// The npm packages of a release: the SDK, the command line, and the server for agents.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { buildClient } from '../build/client.ts'
import { buildProgram } from '../build/program.ts'
import { partsOf } from './parts.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))

const packages = [
  { name: 'client', workspace: 'packages/client', build: async (folder: string) => buildClient(folder) },
  { name: 'dormouse', workspace: 'apps/cli', build: (folder: string) => buildProgram('apps/cli', folder) },
  { name: 'mcp', workspace: 'packages/mcp', build: (folder: string) => buildProgram('packages/mcp', folder) },
]

/** Makes `<name>.tgz`, as the service serves it, and `<name>.cdx.json` in the folder. */
export async function packNpm(out: string, say: (words: string) => void): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'dormouse-npm-'))
  try {
    for (const { name, workspace, build } of packages) {
      say(`Making ${name}.tgz`)
      await build(join(folder, name))
      const words = ['pack', join(folder, name), '--pack-destination', out, '--json']
      const [packed] = JSON.parse(
        execFileSync('npm', words, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }),
      ) as [{ filename: string }]
      renameSync(join(out, packed.filename), join(out, `${name}.tgz`))
      writeFileSync(join(out, `${name}.cdx.json`), partsOf(root, workspace))
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
