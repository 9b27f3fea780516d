// Reads one line that must not be seen: from a pipe, or at a terminal without an echo.
import { createInterface } from 'node:readline/promises'
import { Writable } from 'node:stream'
import { text } from 'node:stream/consumers'

/** The first line of standard input. At a terminal, the question is on standard error. */
export async function readSecret(question: string): Promise<string> {
  const { stdin, stderr } = process
  if (!stdin.isTTY) return (await text(stdin)).split('\n', 1)[0]!
  const silent = new Writable({ write: (_chunk, _encoding, done) => done() })
  const lines = createInterface({ input: stdin, output: silent, terminal: true, historySize: 0 })
  stderr.write(question)
  // Readline turns Ctrl-C into no signal.
  lines.on('SIGINT', () => process.kill(process.pid, 'SIGINT'))
  try {
    return await lines.question('')
  } finally {
    lines.close()
    stderr.write('\n')
  }
}
