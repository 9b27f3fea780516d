// What lies at the source of an image that is about to be registered.
import { parseFetchable } from '../images/fetchable.ts'
import { fetchManifest } from '../images/read-manifest.ts'
import { sourceOf } from '../images/sources.ts'
import type { CommandHandler } from './handler.ts'

const timeoutMs = 10_000

export const inspectImage: CommandHandler<'image.inspect', object> = async (_deps, { source }, signal) => {
  const { text, digest } = await fetchManifest(sourceOf(source), signal, timeoutMs)
  const { name, version, bytes } = parseFetchable(text)
  return { name, version, digest, bytes }
}
