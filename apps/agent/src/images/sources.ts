// Where images are fetched from: a folder on a web server, or one on this host. A web server may be hostile: it can only send
// bytes, which are counted and verified by others.
import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { refuse } from '@dormouse/contract'
import { type Response, request } from '@dormouse/process'

/** Bytes of a file, from `from` on. That is zero if the server cannot send a part of a file. */
export interface OpenedFile {
  from: number
  bytes: AsyncIterable<Uint8Array>
}

export interface ImageSource {
  /**
   * Opens one file. Refuses with `image_not_fetched` if another try is useless; any other error may pass. `signal` closes what
   * was opened.
   */
  open(file: string, from: number, signal: AbortSignal): Promise<OpenedFile>
}

const maxRedirects = 5
const blockBytes = 1024 * 1024

export const sourceOf = (source: string): ImageSource =>
  source.startsWith('/') ? folder(source) : webFolder(source.endsWith('/') ? source : `${source}/`)

function folder(path: string): ImageSource {
  return {
    async open(name, from, signal) {
      // A link could lead out of the folder, and opening a pipe would wait forever.
      const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
      const file = await open(join(path, name), flags).catch((error: NodeJS.ErrnoException) => {
        if (['ENOENT', 'ENOTDIR', 'ELOOP', 'EACCES'].includes(error.code ?? ''))
          return final(`${name}: ${error.message}`)
        throw error
      })
      if (!(await file.stat()).isFile()) {
        await file.close()
        return final(`${name} in ${path} is not a file`)
      }
      return { from, bytes: file.createReadStream({ start: from, highWaterMark: blockBytes, signal }) }
    },
  }
}

function webFolder(base: string): ImageSource {
  return { open: (name, from, signal) => openUrl(new URL(name, base), from, signal, maxRedirects) }
}

async function openUrl(url: URL, from: number, signal: AbortSignal, redirectsLeft: number): Promise<OpenedFile> {
  const wanted = from > 0 && { headers: { range: `bytes=${from}-` } }
  const { status, headers, body } = await request(url, { signal, ...wanted })
  if (status === 200 && isPlain(headers)) return { from: 0, bytes: body }
  if (status === 206 && isPlain(headers)) {
    if (headers['content-range']?.startsWith(`bytes ${from}-`)) return { from, bytes: body }
    body.destroy()
    return final(`${url} sent another part than the requested one: ${headers['content-range']}`)
  }
  body.destroy()
  if ([301, 302, 303, 307, 308].includes(status)) {
    return openUrl(redirected(url, headers.location, redirectsLeft), from, signal, redirectsLeft - 1)
  }
  if (status === 200 || status === 206) return final(`${url} sent compressed bytes although none were requested`)
  if (status === 408 || status === 429 || status >= 500) throw new Error(`${url} answered ${status}`)
  return final(`${url} answered ${status}`)
}

const isPlain = ({ 'content-encoding': coding = 'identity' }: Response['headers']): boolean => coding === 'identity'

/** Redirects keep the scheme: one to plain HTTP would lose what TLS promises, and other schemes reach what is not a web server. */
function redirected(url: URL, location: string | undefined, left: number): URL {
  if (left === 0) return final(`${url} redirects more than ${maxRedirects} times`)
  if (!location || !URL.canParse(location, url.href)) return final(`${url} redirects to no valid URL`)
  const to = new URL(location, url)
  if (to.protocol !== url.protocol) return final(`${url} redirects to ${to.protocol}; register the image by that URL`)
  return to
}

const final = (why: string): never => refuse('image_not_fetched', why)
