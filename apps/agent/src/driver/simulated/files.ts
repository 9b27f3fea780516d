// Files of a simulated guest: which paths may be one, and bytes in a store that keeps text. A folder exists as long as it
// contains a file.
import { isUtf8 } from 'node:buffer'
import { refuse } from '@dormouse/contract'

const pieceBytes = 64 * 1024
/** The prefix of bytes that are not text. */
const mark = '\0base64:'

export function asText(bytes: Buffer): string {
  return isText(bytes) ? bytes.toString('utf8') : mark + bytes.toString('base64')
}

/** Bytes that JSON would write as six characters each do not count as text. */
const isText = (bytes: Buffer): boolean => isUtf8(bytes) && !bytes.some((byte) => byte < 9)

export function asBytes(text: string): Buffer {
  return text.startsWith(mark) ? Buffer.from(text.slice(mark.length), 'base64') : Buffer.from(text, 'utf8')
}

export function* piecesOf(bytes: Buffer): Generator<Buffer, undefined> {
  for (let at = 0; at < bytes.length; at += pieceBytes) yield bytes.subarray(at, at + pieceBytes)
}

export function refuseUnwritable(files: readonly string[], path: string): void {
  if (isFolder(files, path)) refuse('is_directory', 'the path names a directory in the guest')
  if (path.startsWith('/dev/')) refuse('not_regular', 'the path names no regular file in the guest')
  if (path.startsWith('/proc/')) refuse('permission_denied', 'the guest’s file system refuses access')
  if (files.some((file) => path.startsWith(`${file}/`))) {
    refuse('not_directory', 'a part of the path is no directory in the guest')
  }
}

export function refuseUnread(files: readonly string[], path: string): never {
  if (isFolder(files, path)) refuse('is_directory', 'the path names a directory in the guest')
  if (path.startsWith('/dev/')) refuse('not_regular', 'the path names no regular file in the guest')
  return refuse('file_not_found', 'there is no such file in the guest')
}

export const always = ['/', '/dev', '/etc', '/proc', '/root', '/run', '/srv', '/tmp', '/usr']

export const isFolder = (files: readonly string[], path: string): boolean =>
  always.includes(path) || files.some((file) => file.startsWith(`${path}/`))
