// Request and response bodies. Errors while reading are the platform's own; http.ts converts them.
import { DormouseError } from './errors.ts'

/** What a file can be written from. */
export type FileData = string | Uint8Array<ArrayBuffer> | ArrayBuffer | Blob | ReadableStream<Uint8Array>

export type ReadFormat = 'text' | 'bytes' | 'blob' | 'stream'

export interface ReadResults {
  text: string
  bytes: Uint8Array<ArrayBuffer>
  blob: Blob
  stream: ReadableStream<Uint8Array>
}

/** Reads a response in each format; a stream is returned unread. */
export const readers: { [F in ReadFormat]: (response: Response) => Promise<ReadResults[F]> } = {
  text: (response) => response.text(),
  bytes: async (response) => new Uint8Array(await response.arrayBuffer()),
  blob: (response) => response.blob(),
  stream: async (response) => (response.body ?? new Response('').body) as ReadableStream<Uint8Array>,
}

/** Part of a file. */
export interface FilePart {
  /** Where the stream begins in the file. */
  offset: number
  /** Of the whole file; undefined where the service does not say it. */
  size?: number
  /** Another one wherever the file was changed; undefined where the service does not say it. */
  version?: string
  stream: ReadableStream<Uint8Array>
}

export async function partOf(response: Response): Promise<FilePart> {
  const { headers } = response
  const [, offset, size] = /^bytes (\d+)-\d+\/(\d+)$/.exec(headers.get('content-range') ?? '') ?? []
  const version = /^"(.+)"$/.exec(headers.get('etag') ?? '')?.[1]
  const stream = await readers.stream(response)
  return { offset: Number(offset ?? 0), size: size === undefined ? undefined : Number(size), version, stream }
}

/** A JSON body and its headers. */
export function sendJson(body: object, headers: Record<string, string> = {}) {
  return { headers: { ...headers, 'content-type': 'application/json' }, body: JSON.stringify(body) }
}

/** The response's JSON; undefined where it has no body. */
export async function readJson<T>(response: Response): Promise<T> {
  const text = await response.text()
  try {
    return (text === '' ? undefined : JSON.parse(text)) as T
  } catch (cause) {
    throw new DormouseError('the response is not JSON; check that baseUrl is the service’s address', { cause })
  }
}
