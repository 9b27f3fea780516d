// Writes log lines that are many, and whose fields are all ours, at a fraction of the cost of others: in bulk, up to 100 ms
// late, and without looking for credentials. A killed process loses the last ones.
import type { DestinationStream } from 'pino'

export type BulkFields = Readonly<Record<string, string | number | boolean | undefined>>

/** Writes one line. */
export type WriteLine = (level: number, fields: BulkFields, msg: string) => void

const flushChars = 16_384
const flushEveryMs = 100

/** Collects texts, and writes them together. */
export function inBulk(destination: DestinationStream): DestinationStream {
  let collected = ''
  let timer: NodeJS.Timeout | undefined
  const flush = () => {
    clearTimeout(timer)
    timer = undefined
    if (collected !== '') destination.write(collected)
    collected = ''
  }
  process.once('exit', flush)
  return {
    write: (text) => {
      collected += text
      if (collected.length >= flushChars) flush()
      else timer ??= setTimeout(flush, flushEveryMs).unref()
    },
  }
}

/** Writes lines that begin with these fields, in the form of all other lines. */
export function lineWriter(destination: DestinationStream, bindings: BulkFields): WriteLine {
  const constant = JSON.stringify(bindings).slice(1, -1)
  let ms = 0
  let time = ''
  return (level, fields, msg) => {
    const now = Date.now()
    // Many lines share a millisecond, and the conversion costs as much as the rest.
    if (now !== ms) time = new Date(now).toISOString()
    ms = now
    destination.write(`{"level":${level},"time":"${time}",${constant},${JSON.stringify({ ...fields, msg }).slice(1)}\n`)
  }
}
