// Runs the agent's program to its end.
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'

interface Given {
  stdin?: string
  /** SIGTERM is sent when it logs this. */
  until?: string
  /** A command that runs the program, such as one that takes its network away. */
  inside?: string[]
}

export async function ended(words: string[], env: Record<string, string>, { stdin, until, inside = [] }: Given = {}) {
  const main = join(import.meta.dirname, '../main.ts')
  const [command, ...rest] = [...inside, process.execPath, main, ...words]
  const child = spawn(command!, rest, { env: { PATH: process.env.PATH!, ...env } })
  child.stdin.end(stdin)
  child.stdout.on('data', (said: Buffer) => until !== undefined && said.includes(until) && child.kill('SIGTERM'))
  const code = new Promise((resolve) => child.on('close', resolve))
  const said = await Promise.all([text(child.stdout), text(child.stderr)])
  const lines = said.join('').trim().split('\n')
  return { code: await code, lines, last: lines.at(-1)! }
}
