// The figures of one desktop in the last 24 hours, in a file that never grows beyond a fixed size. Each ten seconds have a place in it, which the
// same seconds of the next day take again: so the file has no head that a crash could spoil, and needs no sync. What is torn, or
// of another day, is no figure.
import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { crc32 } from 'node:zlib'
import { metricsKeptSecs, metricsStepMinSecs } from '@dormouse/contract'
import { unlessMissing } from '../mechanics/durable-file.ts'

/** What was measured, as an average since the figure before; null if that is not known. */
export interface Figure {
  /** Unix seconds. */
  at: number
  /** Of one vCPU. */
  cpuPercent: number | null
  memoryUsedMiB: number | null
  memoryMiB: number | null
  /** Bytes a second. */
  diskRead: number | null
  diskWritten: number | null
  networkReceived: number | null
  networkSent: number | null
}

/** Their order in a record. Whoever changes it changes `format`. */
const fields = [
  'cpuPercent',
  'memoryUsedMiB',
  'memoryMiB',
  'diskRead',
  'diskWritten',
  'networkReceived',
  'networkSent',
] as const satisfies (keyof Figure)[]
const format = 1

const places = metricsKeptSecs / metricsStepMinSecs
const recordBytes = 4 * (fields.length + 2)
export const ringBytes = places * recordBytes

/** The ten seconds in which this second is. Figures of the same ten seconds have one place: the later one stays. */
export const periodOf = (unixSecs: number): number => Math.floor(unixSecs / metricsStepMinSecs)

export async function writeFigure(path: string, figure: Figure): Promise<void> {
  await using ring = await open(path, constants.O_RDWR | constants.O_CREAT, 0o600)
  await ring.write(encode(figure), 0, recordBytes, (periodOf(figure.at) % places) * recordBytes)
}

/** The figures of `from` to `to`, both included, the oldest first. */
export async function readFigures(path: string, from: number, to: number): Promise<Figure[]> {
  await using file = await open(path, 'r').catch(unlessMissing)
  if (!file) return []
  const count = Math.min(places, periodOf(to) - periodOf(from) + 1)
  const first = periodOf(to) - count + 1
  const start = ((first % places) + places) % places
  const unwrapped = Math.min(count, places - start)
  const records = [...(await recordsOf(file, start, unwrapped)), ...(await recordsOf(file, 0, count - unwrapped))]
  const figures = records.map(decode).filter((figure) => figure !== undefined)
  return figures.filter(({ at }) => at >= from && at <= to).sort((a, b) => a.at - b.at)
}

async function recordsOf(file: FileHandle, start: number, count: number): Promise<Buffer[]> {
  const bytes = Buffer.alloc(count * recordBytes)
  if (count > 0) await file.read(bytes, 0, bytes.length, start * recordBytes)
  return Array.from({ length: count }, (_, at) => bytes.subarray(at * recordBytes, (at + 1) * recordBytes))
}

function encode(figure: Figure): Buffer {
  const record = Buffer.alloc(recordBytes)
  record.writeUInt32LE(figure.at, 0)
  for (const [at, field] of fields.entries()) record.writeFloatLE(figure[field] ?? Number.NaN, 4 * (at + 1))
  record.writeUInt32LE(sumOf(record), recordBytes - 4)
  return record
}

function decode(record: Buffer): Figure | undefined {
  const at = record.readUInt32LE(0)
  if (at === 0 || record.readUInt32LE(recordBytes - 4) !== sumOf(record)) return undefined
  const values = fields.map((field, index) => {
    const value = record.readFloatLE(4 * (index + 1))
    return [field, Number.isNaN(value) ? null : value] as const
  })
  return { at, ...(Object.fromEntries(values) as Omit<Figure, 'at'>) }
}

const sumOf = (record: Buffer): number => crc32(record.subarray(0, recordBytes - 4), format)
