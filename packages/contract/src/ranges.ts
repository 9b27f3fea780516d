// Byte ranges of a file: as a request names them, and as the file's size resolves them. Pure.
import { z } from 'zod'

const offset = z.int().min(0)

/** From a first byte to a last one or the end; or the last `suffix` bytes. */
export const byteRange = z.union([z.object({ first: offset, last: offset.nullable() }), z.object({ suffix: offset })])
export type ByteRange = z.infer<typeof byteRange>

/** The bytes that a range covers; undefined if the file has none of them. */
export function resolveRange(range: ByteRange, size: number): { first: number; length: number } | undefined {
  const first = 'suffix' in range ? Math.max(0, size - range.suffix) : range.first
  const last = 'suffix' in range ? size - 1 : Math.min(range.last ?? size - 1, size - 1)
  return first < size && last >= first ? { first, length: last - first + 1 } : undefined
}

/**
 * The one range of a `Range` header. Undefined for what a server may ignore: several ranges, other units and what is not
 * valid.
 */
export function parseRange(header: string | undefined): ByteRange | undefined {
  const [, first, last] = /^\s*bytes\s*=\s*(\d{0,15})\s*-\s*(\d{0,15})\s*$/i.exec(header ?? '') ?? []
  if (first === undefined || last === undefined || (first === '' && last === '')) return undefined
  if (first === '') return { suffix: Number(last) }
  if (last !== '' && Number(last) < Number(first)) return undefined
  return { first: Number(first), last: last === '' ? null : Number(last) }
}

/** The bytes that precede the file's own on the channel, as JSON with its length in two bytes before it. */
export const rangeHead = z.object({
  size: offset,
  /** Another one wherever the file was changed. */
  version: z.string().regex(/^[\w.-]{1,100}$/),
  /** What follows; null if the file has none of the range. */
  sent: z.object({ first: offset, length: offset }).nullable(),
  /** Its size is not known before its end: all of it follows, and `size` has no meaning. */
  whole: z.literal(true).optional(),
})
export type RangeHead = z.infer<typeof rangeHead>

export const rangeHeadMaxBytes = 1_024
