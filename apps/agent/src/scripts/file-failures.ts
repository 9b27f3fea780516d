// Refusals of a guest's file system, by the error messages of the guest's C library. Pure.
import { Refusal, type RefusalCode, refuse } from '@dormouse/contract'
import type { ProgramEnd } from './exec-result.ts'

type Row = [code: RefusalCode, detail: string]

const known: Record<string, Row> = {
  'No such file or directory': ['file_not_found', 'there is no such file in the guest'],
  'Is a directory': ['is_directory', 'the path names a directory in the guest'],
  'Not a directory': ['not_directory', 'a part of the path is not a directory in the guest'],
  'File exists': ['not_directory', 'a part of the path is not a directory in the guest'],
  'Exists already': ['file_exists', 'the path exists already in the guest'],
  'Directory not empty': ['not_empty', 'the folder in the guest is not empty'],
  'Timed out': ['guest_deadline', 'the guest’s file system did not finish in time, and the work was ended'],
  'Not a regular file': ['not_regular', 'the path does not name a regular file in the guest'],
  'Too many levels of symbolic links': ['symlink_loop', 'the path has a loop of symbolic links in the guest'],
  'Symbolic link loop': ['symlink_loop', 'the path has a loop of symbolic links in the guest'],
  'Permission denied': ['permission_denied', 'the guest’s file system refuses access'],
  'Operation not permitted': ['permission_denied', 'the guest’s file system refuses access'],
  'Text file busy': ['permission_denied', 'the guest’s file system refuses access: the file is being executed'],
  'Read-only file system': ['read_only', 'the guest’s file system is read-only'],
  'No space left on device': ['no_space', 'the guest’s disk is full'],
  'Disk quota exceeded': ['no_space', 'the guest’s disk quota is exhausted'],
  'File too large': ['no_space', 'the guest’s file system does not accept a file of this size'],
}

/** The refusal for the error at the end of a message; `guest_unavailable` where that is not a file system's. */
export function fileRefusal(message: string, cause?: unknown): Refusal {
  const error = message.trimEnd().split(': ').at(-1) ?? ''
  const refusal = refusalOf(error)
  refusal.cause = cause ?? message
  return refusal
}

function refusalOf(error: string): Refusal {
  if (error === 'Invalid argument') {
    return new Refusal('invalid_request', 'to is in the folder itself', { field: 'to' })
  }
  if (error === 'File name too long') {
    return new Refusal('invalid_request', 'path is longer than the guest accepts', { field: 'path' })
  }
  const [code, detail] = known[error] ?? ['guest_unavailable', 'the guest could not access the file']
  return new Refusal(code, detail)
}

/** What a script that works on files has printed, or the refusal of the guest's file system. */
export function printedBy({ exitCode, stdout, stderr }: Pick<ProgramEnd, 'exitCode' | 'stdout' | 'stderr'>): Buffer {
  const message = stderr.toString('utf8')
  if (exitCode !== 0 || message.includes(': Timed out')) throw fileRefusal(message)
  return stdout
}

/** For a reader, a file below something that is not a directory does not exist. */
export function asReading(error: unknown): never {
  if (!(error instanceof Refusal) || error.code !== 'not_directory') throw error
  return refuse('file_not_found', 'there is no such file in the guest')
}

/** Whether the work succeeded; false where the guest refused it or is unreachable. */
export async function unlessRefused(work: Promise<unknown>): Promise<boolean> {
  try {
    await work
    return true
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return false
  }
}
