// Uploads of any size: sent in pieces, and continued after an interruption from where the guest is.
import type { UploadJson } from '@dormouse/contract'
import { DormouseError } from './errors.ts'
import type { CallOptions, Http } from './http.ts'
import { path } from './path.ts'
import { delayMs, mayPass, retriesDefault } from './retry.ts'

/** What can be read more than once, as an upload has to. In Node, `fs.openAsBlob(file)` makes one of a file. */
export type UploadData = Blob | string | Uint8Array<ArrayBuffer> | ArrayBuffer

export interface UploadOptions extends Omit<CallOptions, 'onResponse'> {
  /** Octal text, such as `0644`. */
  mode?: string
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
  const { mode, pieceBytes = pieceBytesDefault, onProgress, ...given } = options
  const call = { ...given, timeoutMs: given.timeoutMs ?? pieceLimitMs }
  const blob = data instanceof Blob ? data : new Blob([data])
  const begun = await http.json<UploadJson>({
    ...call,
    method: 'POST',
    path: path`/v1/desktops/${desktopId}/uploads`,
    query: { path: file, mode },
    headers: { 'upload-length': String(blob.size), 'upload-complete': '?0' },
  })
  const at = path`/v1/desktops/${desktopId}/uploads/${begun.id}`
  try {
    return await sendAll(http, at, blob, { ...call, pieceBytes, onProgress })
  } catch (error) {
    // It would expire by itself.
    const last = { method: 'DELETE', path: at, timeoutMs: 5_000 }
    await http.run(last, async () => undefined).catch(() => undefined)
    throw error
  }
}

type SendOptions = CallOptions & Required<Pick<UploadOptions, 'pieceBytes'>> & Pick<UploadOptions, 'onProgress'>

async function sendAll(http: Http, at: string, blob: Blob, options: SendOptions): Promise<UploadJson> {
  const { pieceBytes, onProgress, ...call } = options
  const retries = call.retries ?? http.retries ?? retriesDefault
  for (let [offset, failures] = [0, 0]; ; ) {
    const end = Math.min(offset + pieceBytes, blob.size)
    const headers = { 'upload-offset': String(offset), 'upload-complete': end === blob.size ? '?1' : '?0' }
    const body = blob.slice(offset, end)
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
