// Asks one question at a terminal.
import { createInterface } from 'node:readline/promises'
import { Writable } from 'node:stream'

export interface Asking {
  input: NodeJS.ReadableStream
  output: NodeJS.WritableStream
  signal: AbortSignal
  /** Called at Ctrl-C, which readline turns into no signal meanwhile; must abort `signal`. */
  onInterrupt(): void
  /** What is typed is not shown. */
  hidden?: boolean
}

/** The typed line; empty at Ctrl-D. Rejects when `signal` is aborted. */
export async function answerTo(question: string, asking: Asking): Promise<string> {
  const { input, output, signal, onInterrupt, hidden } = asking
  const lines = createInterface({ input, output: hidden ? silent() : output, terminal: true, historySize: 0 })
  // Only now the terminal shows nothing of what is typed.
  if (hidden) output.write(question)
  lines.on('SIGINT', onInterrupt)
  try {
    return await lines.question(hidden ? '' : question, { signal })
  } catch (error) {
    signal.throwIfAborted()
    if ((error as Error).name === 'AbortError') return ''
    throw error
  } finally {
    lines.close()
    if (hidden) output.write('\n')
  }
}

/** Takes readline's echo. */
const silent = () => new Writable({ write: (_chunk, _encoding, done) => done() })
