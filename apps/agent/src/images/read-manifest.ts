// Reads the manifest at an image's source, as bytes that are not trusted yet.
import { createHash } from 'node:crypto'
import { Refusal, refuse } from '@dormouse/contract'
import { unlessAborted } from '../mechanics/deadlines.ts'
import { manifestName, maxManifestBytes } from './fetchable.ts'
import type { ImageSource } from './sources.ts'

export interface FoundManifest {
  text: string
  digest: string
}

/** Refuses with `image_not_fetched` if it is not there, or does not come within `timeoutMs`. */
export async function fetchManifest(
  source: ImageSource,
  signal: AbortSignal,
  timeoutMs: number,
): Promise<FoundManifest> {
  const late = new AbortController()
  const timer = setTimeout(() => late.abort(new Error(`it did not come within ${timeoutMs / 1_000} s`)), timeoutMs)
  try {
    const either = AbortSignal.any([signal, late.signal])
    // A file system that hangs cannot be interrupted.
    const text = await unlessAborted(readAll(source, either), either)
    return { text: text.toString('utf8'), digest: createHash('sha256').update(text).digest('hex') }
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof Refusal) throw error
    const why = late.signal.aborted ? late.signal.reason : error
    return refuse('image_not_fetched', `${manifestName}: ${(why as Error).message}`)
  } finally {
    clearTimeout(timer)
    late.abort(new Error('the manifest is read'))
  }
}

async function readAll(source: ImageSource, signal: AbortSignal): Promise<Buffer> {
  const { bytes } = await source.open(manifestName, 0, signal)
  const chunks: Uint8Array[] = []
  let length = 0
  for await (const chunk of bytes) {
    length += chunk.length
    if (length > maxManifestBytes)
      refuse('image_not_fetched', `${manifestName} is larger than ${maxManifestBytes} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}
