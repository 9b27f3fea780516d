// In which form a client takes the answer to its request: one JSON document, or a stream of events. Pure.

export type Form = 'json' | 'stream'

interface Range {
  type: string
  quality: number
}

/**
 * Undefined if the client takes neither. A client that takes both alike gets a stream if it names streams: a stream outlasts
 * long calls.
 */
export function formFor(accept: string | undefined): Form | undefined {
  const ranges = (accept?.trim() ? accept : '*/*').split(',').map(rangeOf)
  const [json, stream] = [qualityOf(ranges, 'application/json'), qualityOf(ranges, 'text/event-stream')]
  if (json === 0 && stream === 0) return undefined
  const isNamed = ranges.some(({ type }) => type === 'text/event-stream')
  return stream > json || (stream === json && isNamed) ? 'stream' : 'json'
}

function rangeOf(text: string): Range {
  const [type = '', ...parameters] = text.split(';').map((part) => part.trim().toLowerCase())
  const q = parameters.find((one) => /^q\s*=/.test(one))?.replace(/^q\s*=\s*/, '')
  const quality = q === undefined ? 1 : Number(q)
  return { type, quality: Number.isFinite(quality) ? quality : 0 }
}

/** The most specific range decides. */
function qualityOf(ranges: readonly Range[], type: string): number {
  const matching = [type, `${type.split('/')[0]}/*`, '*/*'].map((one) => ranges.find((range) => range.type === one))
  return matching.find((range) => range !== undefined)?.quality ?? 0
}
