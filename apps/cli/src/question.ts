// One question to a person at a terminal. Knows no command.
import { createInterface } from 'node:readline/promises'

export interface Asking {
  input: NodeJS.ReadableStream
  output: NodeJS.WritableStream
  signal: AbortSignal
  /** Called at Ctrl-C, which the terminal does not turn into a signal while it is asked; to abort `signal`. */
  onInterrupt(): void
}

/** The line that was typed; empty where there was none, as at Ctrl-D. Rejects where `signal` is aborted. */
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
