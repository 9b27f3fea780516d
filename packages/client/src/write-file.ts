// Writing a file of any size: in one request, or as an upload if it is larger than one request takes.
import type { FileJson } from '@dormouse/contract'
import { checkData, type FileData } from './bodies.ts'
import type { CallOptions, Http } from './http.ts'
import { checkMode } from './options.ts'
import { guestPath, path } from './path.ts'
import { upload } from './uploads.ts'

/** As many bytes as the service takes in one request. */
const oneRequestMaxBytes = 8 * 1024 * 1024
const limitMs = 300_000

export interface WriteOptions extends CallOptions {
  /** Octal text, such as `0644`. */
  mode?: string
  /** A user of the guest, by name or number; by default the owner of the folder. */
  owner?: string
}

export async function writeFile(
  http: Http,
  id: string,
  file: string,
  data: FileData,
  { mode, owner, onResponse, ...call }: WriteOptions = {},
): Promise<FileJson> {
  checkData(data)
  checkMode(mode)
  const { bytes, rest } = await begun(data)
  if (rest) {
    const done = await upload(http, id, file, rest, { ...call, mode, owner })
    return { path: done.path, size: done.offset }
  }
  return http.json<FileJson>({
    ...call,
    onResponse,
    limitMs: limitMs,
    method: 'PUT',
    path: path`/v1/desktops/${id}/files/` + guestPath(file),
    query: { mode, owner },
    headers: { 'content-type': 'application/octet-stream' },
    body: bytes,
  })
}

/** All of it, or what an upload reads. */
async function begun(data: FileData): Promise<{ bytes?: FileData; rest?: FileData }> {
  if (data instanceof ReadableStream) return begunStream(data)
  const blob = data instanceof Blob ? data : new Blob([data])
  return blob.size > oneRequestMaxBytes ? { rest: blob } : { bytes: data }
}

async function begunStream(stream: ReadableStream<Uint8Array>): Promise<{ bytes?: FileData; rest?: FileData }> {
  const reader = stream.getReader()
  const parts: Uint8Array<ArrayBuffer>[] = []
  for (let size = 0; size <= oneRequestMaxBytes; ) {
    const { value, done } = await reader.read()
    if (done) return { bytes: new Blob(parts) }
    parts.push(value as Uint8Array<ArrayBuffer>)
    size += value.length
  }
  const pull = async (controller: ReadableStreamDefaultController<Uint8Array>) => {
    const next = parts.length > 0 ? { value: parts.shift(), done: false } : await reader.read()
    if (next.value) controller.enqueue(next.value)
    else controller.close()
  }
  return { rest: new ReadableStream({ pull, cancel: (reason) => reader.cancel(reason) }) }
}
