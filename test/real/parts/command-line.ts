// The `dormouse` command as a user types it, on the service of an instance, which it finds by itself.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import type { Instance } from './instance.ts'

const bin = fileURLToPath(new URL('../../../node_modules/.bin/dormouse', import.meta.url))

export interface Ended {
  code: number
  stdout: string
  stderr: string
}

/** Starts one command in a terminal of its own; what is written to its stdin is typed. */
export function inTerminal({ dataDir }: Instance, words: string[]) {
  const command = [bin, ...words].map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(' ')
  const env = { ...process.env, DORMOUSE_DATA: dataDir, TERM: 'xterm' }
  const child = spawn('script', ['-qec', command, '/dev/null'], { env, stdio: 'pipe' })
  child.stdin.on('error', () => undefined)
  return child
}

/** Runs one command to its end; `stdin` is all that it may read. */
export async function typed({ dataDir }: Instance, words: string[], stdin: string | Buffer = ''): Promise<Ended> {
  const child = spawn(bin, words, { env: { ...process.env, DORMOUSE_DATA: dataDir }, stdio: 'pipe' })
  // A child that ends early has not read all of it.
  child.stdin.on('error', () => undefined).end(stdin)
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
  return { code: code as number, stdout, stderr }
}
