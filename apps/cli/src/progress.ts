// A progress bar on stderr for transfers. Prints nothing if stderr is not a terminal.

export interface Progress {
  add(bytes: number): void
  /** Removes the bar. */
  end(): void
  /** Until the end, or until now. */
  elapsedMs(): number
}

const width = 24
const drawEveryMs = 100
const mib = 1024 * 1024

/** Without a total it shows the bytes and their rate, without a bar. */
export function startProgress(label: string, total: number | undefined): Progress {
  const started = performance.now()
  let [done, ended] = [0, 0]
  const elapsedMs = () => Math.round((ended || performance.now()) - started)
  const shown = process.stderr.isTTY && process.env.TERM !== 'dumb'
  const draw = () => process.stderr.write(`\r\x1b[K${line(label, done, total, elapsedMs())}`)
  const timer = shown ? setInterval(draw, drawEveryMs) : undefined
  return {
    add: (bytes) => {
      done += bytes
    },
    end: () => {
      if (ended) return
      ended = performance.now()
      clearInterval(timer)
      if (shown) process.stderr.write('\r\x1b[K')
    },
    elapsedMs,
  }
}

/** One line of it: `name  [████      ]  42 %  3.4 MiB  12.1 MiB/s`. */
export function line(label: string, done: number, total: number | undefined, elapsedMs: number): string {
  const moved = `${(done / mib).toFixed(1)} MiB  ${(done / mib / (Math.max(elapsedMs, 1) / 1_000)).toFixed(1)} MiB/s`
  if (total === undefined) return `${label}  ${moved}`
  const part = total === 0 ? 1 : Math.min(1, done / total)
  const full = Math.round(part * width)
  return `${label}  [${'█'.repeat(full)}${' '.repeat(width - full)}]  ${Math.round(part * 100)} %  ${moved}`
}
