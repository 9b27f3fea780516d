// Uploads of any size: sent in pieces, and continued after an interruption at the guest's offset.
import type { UploadJson } from '@dormouse/contract'
import { checkData, type FileData } from './bodies.ts'
import { DormouseError } from './errors.ts'
import type { CallOptions, Http } from './http.ts'
import { checkMode } from './options.ts'
import { path } from './path.ts'
import { delayMs, mayPass, retriesDefault } from './retry.ts'

/** In Node, `fs.openAsBlob(file)` makes one of a file. A stream costs the memory of one piece, which may have to be sent again. */
export type UploadData = FileData

export interface UploadOptions extends Omit<CallOptions, 'onResponse'> {
  /** Octal text, such as `0644`. */
  mode?: string
  /** A user of the guest, by name or number; by default the owner of the folder. */
  owner?: string
  /** Bytes of one request; 32 MiB by default. */
  pieceBytes?: number
  /** Called with the bytes that the guest has, whenever that changes. */
  onProgress?: (offset: number) => void
}

const pieceBytesDefault = 32 * 1024 * 1024
/** One piece, which may wait for other transfers of its desktop. */
const pieceLimitMs = 300_000

/** Sends the file and returns when it is in its place. `retries` counts failures in a row without a byte of progress. */
export async function upload(
  http: Http,
  desktopId: string,
  file: string,
  data: UploadData,
  options: UploadOptions = {},
): Promise<UploadJson> {
  const { mode, owner, pieceBytes = pieceBytesDefault, onProgress, ...given } = options
  const call = { ...given, limitMs: pieceLimitMs }
  checkData(data)
  checkMode(mode)
  const source = sourceOf(data)
  const begun = await http.json<UploadJson>({
    ...call,
    method: 'POST',
    path: path`/v1/desktops/${desktopId}/uploads`,
    query: { path: file.startsWith('/') ? file : `/${file}`, mode, owner },
    headers: { 'upload-length': source.size === undefined ? undefined : String(source.size), 'upload-complete': '?0' },
  })
  const at = path`/v1/desktops/${desktopId}/uploads/${begun.id}`
  try {
    return await sendAll(http, at, source, { ...call, pieceBytes, onProgress })
  } catch (error) {
    // It would expire by itself.
    const last = { method: 'DELETE', path: at, timeoutMs: 5_000 }
    await http.run(last, async () => undefined).catch(() => undefined)
    await source.end()
    throw error
  }
}

/** Gives pieces in their order; the last one again, from any offset in it. */
interface Source {
  size: number | undefined
  piece(offset: number, maxBytes: number): Promise<{ body: Blob; isLast: boolean }>
  end(): Promise<void>
}

function sourceOf(data: UploadData): Source {
  if (data instanceof ReadableStream) return sourceOfStream(data)
  const blob = data instanceof Blob ? data : new Blob([data])
  return {
    size: blob.size,
    piece: async (offset, maxBytes) => {
      const end = Math.min(offset + maxBytes, blob.size)
      return { body: blob.slice(offset, end), isLast: end === blob.size }
    },
    end: async () => undefined,
  }
}

function sourceOfStream(stream: ReadableStream<Uint8Array>): Source {
  const reader = stream.getReader()
  let [kept, start, isAll] = [new Blob([]), 0, false]
  return {
    size: undefined,
    piece: async (offset, maxBytes) => {
      kept = kept.slice(offset - start)
      start = offset
      const parts: (Blob | Uint8Array<ArrayBuffer>)[] = [kept]
      for (let bytes = kept.size; !isAll && bytes <= maxBytes; ) {
        const { value, done } = await reader.read()
        isAll = done
        if (!value) continue
        parts.push(value as Uint8Array<ArrayBuffer>)
        bytes += value.length
      }
      kept = new Blob(parts)
      const body = kept.slice(0, maxBytes)
      return { body, isLast: isAll && body.size === kept.size }
    },
    end: () => reader.cancel().catch(() => undefined),
  }
}

type SendOptions = CallOptions & Required<Pick<UploadOptions, 'pieceBytes'>> & Pick<UploadOptions, 'onProgress'>

async function sendAll(http: Http, at: string, source: Source, options: SendOptions): Promise<UploadJson> {
  const { pieceBytes, onProgress, ...call } = options
  const retries = call.retries ?? http.retries ?? retriesDefault
  for (let [offset, failures] = [0, 0]; ; ) {
    const { body, isLast } = await source.piece(offset, pieceBytes)
    const headers = { 'upload-offset': String(offset), 'upload-complete': isLast ? '?1' : '?0' }
    let now: UploadJson
    try {
      now = await http.json<UploadJson>({ ...call, method: 'PATCH', path: at, headers, body })
      failures = 0
    } catch (error) {
      if (!(error instanceof DormouseError) || !mayGoOn(error) || failures >= retries) throw error
      await http.clock.sleep(delayMs(failures, error, http.clock.random), call.signal ?? new AbortController().signal)
      now = await http.json<UploadJson>({ ...call, method: 'GET', path: at })
      failures = now.offset > offset ? 0 : failures + 1
    }
    offset = now.offset
    onProgress?.(offset)
    if (now.complete) return now
  }
}

const mayGoOn = (error: DormouseError) => mayPass(error) || error.code === 'upload_offset'
