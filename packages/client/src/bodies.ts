// Bodies, sent and read. What breaks off while it is read is thrown by the platform as it likes; http.ts names it.
import { DormouseError } from './errors.ts'

/** What a file may be written from. */
export type FileData = string | Uint8Array<ArrayBuffer> | ArrayBuffer | Blob | ReadableStream<Uint8Array>

export type ReadFormat = 'text' | 'bytes' | 'blob' | 'stream'

export interface ReadResults {
  text: string
  bytes: Uint8Array<ArrayBuffer>
  blob: Blob
  stream: ReadableStream<Uint8Array>
}

/** How each format is read; a stream is handed over unread. */
export const readers: { [F in ReadFormat]: (response: Response) => Promise<ReadResults[F]> } = {
  text: (response) => response.text(),
  bytes: async (response) => new Uint8Array(await response.arrayBuffer()),
  blob: (response) => response.blob(),
  stream: async (response) => (response.body ?? new Response('').body) as ReadableStream<Uint8Array>,
}

/** A JSON body with the headers that belong to it. */
export function sendJson(body: object, headers: Record<string, string> = {}) {
  return { headers: { ...headers, 'content-type': 'application/json' }, body: JSON.stringify(body) }
}

/** The answer's JSON; undefined where it has no body. */
export async function readJson<T>(response: Response): Promise<T> {
  const text = await response.text()
  try {
    return (text === '' ? undefined : JSON.parse(text)) as T
  } catch (cause) {
    throw new DormouseError('the answer is not JSON: is this the address of the service?', { cause })
  }
}
