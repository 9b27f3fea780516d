// Runs the agent's program to its end.
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'

interface Given {
  stdin?: string
  /** SIGTERM is sent when it logs this. */
  until?: string
}

export async function ended(words: string[], env: Record<string, string>, { stdin, until }: Given = {}) {
  const main = join(import.meta.dirname, '../main.ts')
  const child = spawn(process.execPath, [main, ...words], { env: { PATH: process.env.PATH!, ...env } })
  child.stdin.end(stdin)
  child.stdout.on('data', (said: Buffer) => until !== undefined && said.includes(until) && child.kill('SIGTERM'))
  const code = new Promise((resolve) => child.on('close', resolve))
  const said = await Promise.all([text(child.stdout), text(child.stderr)])
  const lines = said.join('').trim().split('\n')
  return { code: await code, lines, last: lines.at(-1)! }
}
