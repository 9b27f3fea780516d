// The format of an append log. Each frame is one line, so that the log can be read with `less`:
//   <number> <highest number known to be synced when it was written> <CRC-32> <JSON array of records>
// Frame 0 says how many frames the snapshot at the head has. The file is filled up with line feeds for frames to come.
import { crc32 } from 'node:zlib'

const lineFeed = 10
const version = 1

/** The line of one frame; `records` are JSON texts. */
export function frameOf(number: number, synced: number, records: readonly string[]): string {
  const body = `[${records.join(',')}]`
  return `${number} ${synced} ${checksum(number, synced, body)} ${body}\n`
}

/** The first line of a log whose snapshot has this many frames. */
export const headOf = (snapshotFrames: number): string =>
  frameOf(0, 0, [JSON.stringify({ journal: version, snapshotFrames })])

/** Space for frames to come. */
export const emptySpace = (bytes: number): Buffer => Buffer.alloc(bytes, lineFeed)

export interface LogContent {
  bytes: Buffer
  records: unknown[]
  /** The number of the last frame. */
  frames: number
  /** Where the last frame ends, in bytes from the beginning. */
  endBytes: number
}

/**
 * Reads a log. An incomplete tail, which was never acknowledged, is left out. Throws if an earlier frame is damaged.
 * A damaged last frame cannot be told from an incomplete one.
 */
export function readLog(bytes: Buffer): LogContent {
  const lines = linesOf(bytes)
  const head = frameIn(bytes, lines.next().value)
  const { journal, snapshotFrames } = (head?.number === 0 ? head.records[0] : {}) as Record<string, number | undefined>
  if (snapshotFrames === undefined) throw new Error('its first line is damaged')
  if (journal !== version) throw new Error(`it has format ${journal}; this agent reads format ${version}`)
  const content: LogContent = { bytes, records: [], frames: 0, endBytes: head!.endBytes }
  for (const line of lines) {
    const frame = frameIn(bytes, line)
    if (frame?.number !== content.frames + 1) {
      refuseDamage(bytes, lines, content)
      break
    }
    content.records.push(...frame.records)
    content.frames = frame.number
    content.endBytes = frame.endBytes
  }
  if (content.frames < snapshotFrames) throw new Error(`its snapshot ends after line ${content.frames + 1}`)
  return content
}

/** Damage, if a later frame was written when the unreadable one had been synced. Otherwise it is an incomplete tail. */
function refuseDamage(bytes: Buffer, rest: Iterable<Line>, { frames }: LogContent): void {
  for (const line of rest) {
    const later = frameIn(bytes, line)
    if (later && later.synced > frames) throw new Error(`line ${frames + 2} is damaged`)
  }
}

interface Line {
  start: number
  end: number
}

/** The lines that are not empty; the last may lack its line feed. */
function* linesOf(bytes: Buffer): Generator<Line, undefined> {
  let start = 0
  for (;;) {
    while (bytes[start] === lineFeed) start++
    if (start >= bytes.length) return undefined
    const end = bytes.indexOf(lineFeed, start)
    if (end < 0) {
      yield { start, end: bytes.length }
      return undefined
    }
    yield { start, end }
    start = end
  }
}

interface Frame {
  number: number
  synced: number
  records: unknown[]
  endBytes: number
}

const form = /^(\d+) (\d+) ([0-9a-f]{8}) (.*)$/s

function frameIn(bytes: Buffer, line: Line | undefined): Frame | undefined {
  if (!line || line.end >= bytes.length) return undefined
  const [, number, synced, sum, body] = form.exec(bytes.toString('utf8', line.start, line.end)) ?? []
  if (!body || checksum(Number(number), Number(synced), body) !== sum) return undefined
  const records = JSON.parse(body) as unknown[]
  return { number: Number(number), synced: Number(synced), records, endBytes: line.end + 1 }
}

const checksum = (number: number, synced: number, body: string): string =>
  crc32(`${number} ${synced} ${body}`).toString(16).padStart(8, '0')
