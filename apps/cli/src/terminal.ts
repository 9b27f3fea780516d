// Output: results on stdout, as text or one JSON document; everything else on stderr.
import { type Progress, startProgress } from './progress.ts'
import { answerTo } from './question.ts'

export interface Terminal {
  /** Aborted by the first Ctrl-C. */
  readonly signal: AbortSignal
  /** While it is not ended, signals that would end this program are passed on instead. Returns what ends it. */
  takeSignals(take: (name: NodeJS.Signals) => void): () => void
  /** Writes to stdout. */
  write(text: string): void
  /** Prints a line to stderr. */
  note(text: string): void
  /**
   * Runs long work, with its elapsed time on stderr if that is a terminal. `show` adds how far it has come; undefined if
   * nothing is shown.
   */
  during<T>(label: string, work: (show?: (text: string) => void) => Promise<T>): Promise<T>
  /** Whether questions can be answered. */
  readonly interactive: boolean
  /** Asks on stderr and returns the typed line; empty if there was none. `hidden`: what is typed is not shown. */
  ask(question: string, options?: { hidden?: boolean }): Promise<string>
  /** Shows transferred bytes on stderr if that is a terminal. */
  progress(label: string, total?: number): Progress
}

const frames = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏']
const frameMs = 100

/** The process's own terminal. */
export function openTerminal({ signal, takeSignals }: Pick<Terminal, 'signal' | 'takeSignals'>): Terminal {
  const { stdout, stderr } = process
  return {
    signal,
    takeSignals,
    write: (text) => void stdout.write(text),
    note: (text) => void stderr.write(`${printable(text)}\n`),
    during: async (label, work) => {
      if (!stderr.isTTY || process.env.TERM === 'dumb') return work()
      const { show, stop } = spin(label)
      try {
        return await work(show)
      } finally {
        stop()
      }
    },
    interactive: process.stdin.isTTY === true && stderr.isTTY === true,
    ask: (question, { hidden = false } = {}) => {
      const onInterrupt = () => void process.kill(process.pid, 'SIGINT')
      return answerTo(printable(question), { input: process.stdin, output: stderr, signal, onInterrupt, hidden })
    },
    progress: (label, total) => startProgress(printable(label), total),
  }
}

function spin(label: string): { show(text: string): void; stop(): void } {
  let shown = ''
  const start = performance.now()
  const draw = () => {
    const elapsedMs = performance.now() - start
    const frame = frames[Math.floor(elapsedMs / frameMs) % frames.length]
    process.stderr.write(`\r\x1b[K${frame} ${label} ${seconds(elapsedMs)}${shown}`)
  }
  draw()
  const timer = setInterval(draw, frameMs)
  return {
    show: (text) => {
      shown = text && `  ${printable(text)}`
    },
    stop: () => {
      clearInterval(timer)
      process.stderr.write('\r\x1b[K')
    },
  }
}

/** A document for programs. */
export function json(value: object): string {
  return `${JSON.stringify(value, null, 2)}\n`
}

/** Columns with headings. */
export function table(names: string[], rows: (string | number | null | undefined)[][]): string {
  const cells = [names, ...rows.map((row) => row.map(cell))]
  const widths = names.map((_, column) => Math.max(...cells.map((row) => row[column]?.length ?? 0)))
  const line = (row: string[]) => row.map((text, column) => text.padEnd(widths[column] ?? 0)).join('  ')
  return cells.map((row) => `${line(row).trimEnd()}\n`).join('')
}

/** One name and value per line. */
export function fields(values: Record<string, string | number | null | undefined>): string {
  const width = Math.max(...Object.keys(values).map((name) => name.length))
  return Object.entries(values)
    .map(([name, value]) => `${name.padEnd(width)}  ${cell(value)}\n`)
    .join('')
}

/** Elapsed time with its unit. */
export function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`
}

function cell(value: string | number | null | undefined): string {
  return value === null || value === undefined || value === '' ? '-' : printable(String(value))
}

/** Text from elsewhere must not control the terminal. */
export function printable(text: string): string {
  return text.replace(/[^\P{Cc}\n\t]/gu, '\ufffd')
}
