// Request and response bodies. Errors while reading are the platform's own; http.ts converts them.
import { DormouseError, InvalidRequestError } from './errors.ts'

/** What a file can be written from. */
export type FileData = string | Uint8Array<ArrayBuffer> | ArrayBuffer | Blob | ReadableStream<Uint8Array>

export type ReadFormat = 'text' | 'bytes' | 'blob' | 'stream'

export interface ReadResults {
  text: string
  bytes: Uint8Array<ArrayBuffer>
  blob: Blob
  stream: ReadableStream<Uint8Array>
}

/** Throws InvalidRequestError on what no file can be written from: `undefined` would be an empty file, an object its name. */
export function checkData(data: unknown): void {
  const kinds = [ArrayBuffer, Blob, ReadableStream]
  if (typeof data === 'string' || ArrayBuffer.isView(data) || kinds.some((kind) => data instanceof kind)) return
  const given = data === null ? 'null' : typeof data
  throw new InvalidRequestError(`the data of a file must be text, bytes, a Blob or a stream, not ${given}`)
}

/** Throws InvalidRequestError on a format that there is not. */
export function readerOf<F extends ReadFormat>(format: F): (typeof readers)[F] {
  if (Object.hasOwn(readers, format)) return readers[format]
  throw new InvalidRequestError(`format must be ${Object.keys(readers).join(', ')}, not ${JSON.stringify(format)}`)
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
  /** The stream's offset in the file. */
  offset: number
  /** The size of the whole file; undefined if the service does not send it. */
  size?: number
  /** Another one wherever the file was changed; undefined if the service does not send it. */
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

/** More than the longest list of the service. */
const jsonMaxBytes = 256 * 1024 * 1024
/** A proxy's answer in place of the service's, or that of another program. */
const checkBaseUrl = 'check that baseUrl is the service’s address'

/** The response's object; undefined only if there may be no body, and is none. */
export async function readJson<T>(response: Response, { mayBeEmpty = false } = {}): Promise<T> {
  const text = await readText(response, jsonMaxBytes)
  if (text === '' && mayBeEmpty) return undefined as T
  const value = parseJson(text)
  if (typeof value === 'object' && value !== null) return value as T
  throw new DormouseError(`the response is not a JSON object; ${checkBaseUrl}`)
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new DormouseError(`the response is not JSON; ${checkBaseUrl}`, { cause })
  }
}

/** The body as text. A longer one is an error, and is not read on. */
export async function readText({ body }: Response, maxBytes: number): Promise<string> {
  const decoder = new TextDecoder()
  let [text, left] = ['', maxBytes]
  // Leaving the loop ends the body.
  for await (const chunk of body ?? []) {
    left -= chunk.byteLength
    if (left < 0) throw new DormouseError(`the response is longer than ${maxBytes} bytes; ${checkBaseUrl}`)
    text += decoder.decode(chunk, { stream: true })
  }
  return text + decoder.decode()
}

/** No compression is requested: a few bytes could become any number. */
export function refuseCoded({ headers }: Response): void {
  const coding = headers.get('content-encoding')?.trim() || 'identity'
  if (coding.toLowerCase() === 'identity') return
  const remedy = 'turn off compression in the proxy in front of the service'
  throw new DormouseError(`the response is compressed (${coding.slice(0, 40)}), which was not asked for; ${remedy}`)
}
