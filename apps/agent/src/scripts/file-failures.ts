// Refusals of a guest's file system, by the errors of our program, which are numbers, and by the messages of scripts. Pure.
import { getSystemErrorMap } from 'node:util'
import { Refusal, type RefusalCode, refuse } from '@dormouse/contract'
import type { ProgramEnd } from '../driver/guest-transport.ts'
import { codeByErrno, codeByMessage } from './errnos.ts'

/** A body that is no archive; by its first word the control plane knows the field. */
export const noArchive = 'body must be a whole tar archive, and not compressed'

/** The messages of our program and of our own scripts. */
const own: Record<string, [code: RefusalCode, detail?: string]> = {
  'Exists already': ['file_exists'],
  'Not a regular file': ['not_regular'],
  'Timed out': ['guest_deadline', 'the guest’s file system did not finish in time, and the work was ended'],
  'Gone meanwhile': ['conflict', 'the unfinished file, or its folder, was removed'],
  'In itself': ['invalid_request', 'to must not be in the folder itself'],
  'No tar': ['archive_unsupported'],
  'Not an archive': ['invalid_request', noArchive],
  'No program': ['exec_unsupported'],
  'No such user': ['invalid_request', 'owner must be a user of the guest'],
}
const tooLong = 'path must not be longer than the guest accepts'

/** More of a guest's message is not quoted. */
const quotedMaxLength = 200

/** The refusal for the error at the end of a message. Not `guest_unavailable`: a guest that prints an error is not silent. */
export function fileRefusal(message: string, cause?: unknown): Refusal {
  const error = message.trimEnd().split(/: |\n/).at(-1)?.trim() ?? ''
  const refusal = refusalOf(error)
  refusal.cause = cause ?? message
  return refusal
}

function refusalOf(error: string): Refusal {
  const known = Object.hasOwn(own, error) ? own[error] : undefined
  if (known) return new Refusal(...known)
  const errno = Number(/^errno (\d{1,4})$/.exec(error)?.[1])
  const code = codeByErrno.get(errno) ?? codeByMessage.get(error)
  if (code === 'invalid_request') return new Refusal(code, tooLong)
  if (code) return new Refusal(code)
  const message = getSystemErrorMap().get(-errno)?.[1] ?? error.slice(0, quotedMaxLength)
  return new Refusal('file_refused', message || 'no message')
}

/** What a script that works on files has printed, or the refusal of the guest's file system. */
export function printedBy({ exitCode, stdout, stderr }: Pick<ProgramEnd, 'exitCode' | 'stdout' | 'stderr'>): Buffer {
  const message = stderr.toString('utf8')
  if (exitCode !== 0 || message.includes(': Timed out')) throw fileRefusal(message)
  return stdout
}

/** What an operation of our program has said, or the refusal of the guest's file system. */
export function saidBy(answer: Buffer): Buffer {
  const [, failure] = /^no (.*)\n$/.exec(answer.toString('latin1', 0, 2 * quotedMaxLength)) ?? []
  if (failure !== undefined) throw fileRefusal(failure)
  return answer
}

/** For a reader, a file below something that is not a directory does not exist. */
export function asReading(error: unknown): never {
  if (!(error instanceof Refusal) || error.code !== 'not_directory') throw error
  return refuse('file_not_found')
}

/** Whether the work succeeded; false if the guest refused it or is unreachable. */
export async function unlessRefused(work: Promise<unknown>): Promise<boolean> {
  try {
    await work
    return true
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return false
  }
}
