// What a guest's file system says when it refuses, in our words. Pure.
import { Refusal, type RefusalCode, refuse } from '@dormouse/contract'

type Row = [code: RefusalCode, says: string]

const known: Record<string, Row> = {
  'No such file or directory': ['file_not_found', 'there is no such file in the guest'],
  'Is a directory': ['is_directory', 'the path names a directory in the guest'],
  'Not a directory': ['not_directory', 'a part of the path is no directory in the guest'],
  'File exists': ['not_directory', 'a part of the path is no directory in the guest'],
  'Not a regular file': ['not_regular', 'the path names no regular file in the guest'],
  'Too many levels of symbolic links': ['symlink_loop', 'the path runs through a loop of symbolic links in the guest'],
  'Symbolic link loop': ['symlink_loop', 'the path runs through a loop of symbolic links in the guest'],
  'Permission denied': ['permission_denied', 'the guest’s file system refuses access'],
  'Operation not permitted': ['permission_denied', 'the guest’s file system refuses access'],
  'Text file busy': ['permission_denied', 'the guest’s file system refuses access: the file is being run'],
  'Read-only file system': ['read_only', 'the guest’s file system is read-only'],
  'No space left on device': ['no_space', 'the guest’s disk is full'],
  'Disk quota exceeded': ['no_space', 'the guest’s disk quota is used up'],
  'File too large': ['no_space', 'the guest’s file system takes no file of this size'],
}

/** The refusal for the words at the end of `said`; `guest_unavailable` where they are none of a file system's. */
export function fileRefusal(said: string, cause?: unknown): Refusal {
  const words = said.trimEnd().split(': ').at(-1) ?? ''
  const refusal = refusalOf(words)
  refusal.cause = cause ?? said
  return refusal
}

function refusalOf(words: string): Refusal {
  if (words === 'File name too long') {
    return new Refusal('invalid_request', 'path is longer than the guest can take', { field: 'path' })
  }
  const [code, says] = known[words] ?? ['guest_unavailable', 'the guest could not do it']
  return new Refusal(code, says)
}

/** To a reader, a file below something that is no directory is just not there. */
export function asReading(error: unknown): never {
  if (!(error instanceof Refusal) || error.code !== 'not_directory') throw error
  return refuse('file_not_found', 'there is no such file in the guest')
}

/** A guest that is gone is told nothing more; whether it was there. */
export async function unlessGone(work: Promise<unknown>): Promise<boolean> {
  try {
    await work
    return true
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return false
  }
}
