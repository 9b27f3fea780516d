// Asks one question at a terminal.
import { createInterface } from 'node:readline/promises'

export interface Asking {
  input: NodeJS.ReadableStream
  output: NodeJS.WritableStream
  signal: AbortSignal
  /** Called at Ctrl-C, which readline turns into no signal meanwhile; must abort `signal`. */
  onInterrupt(): void
}

/** The typed line; empty at Ctrl-D. Rejects when `signal` is aborted. */
export async function answerTo(question: string, { input, output, signal, onInterrupt }: Asking): Promise<string> {
  const lines = createInterface({ input, output, terminal: true })
  lines.on('SIGINT', onInterrupt)
  try {
    return await lines.question(question, { signal })
  } catch (error) {
    signal.throwIfAborted()
    if ((error as Error).name === 'AbortError') return ''
    throw error
  } finally {
    lines.close()
  }
}
