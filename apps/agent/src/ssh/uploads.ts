// Uploads in several parts: steps are calls of our program, and bytes go over a channel of their own.

import type { UploadCommand, UploadResult } from '@dormouse/contract'
import type { GuestConnection } from '../driver/guest-connection.ts'
import type { UploadAppend } from '../driver/guest-transport.ts'
import { saidBy } from '../scripts/file-failures.ts'
import { checkOffset, parseUpload, type UploadTarget, uploadWords } from '../scripts/files.ts'
import { fileLimits } from '../scripts/limits.ts'
import type { GuestCalls } from './calls.ts'
import { openStream } from './files.ts'

/** A file is not placed again if the connection is lost: the repeat would find it placed, and not know by whom. */
export async function uploadStep(calls: GuestCalls, command: UploadCommand): Promise<UploadResult> {
  const call = { words: uploadWords(command), timeoutSecs: fileLimits.uploadStepSecs }
  return parseUpload(saidBy(await calls.call(call, { repeats: command.step !== 'place' })))
}

export async function appendOverSsh(
  connection: GuestConnection,
  { path, uploadId }: UploadTarget,
  offset: number,
): Promise<UploadAppend> {
  const { stream, line } = await openStream(connection, ['upload.append', path, uploadId, offset])
  try {
    checkOffset(line, offset)
  } catch (error) {
    stream.close()
    throw error
  }
  stream.discardOutput()
  return {
    write: async (bytes) => {
      await connection.sendCapacity()
      await stream.write(bytes)
    },
    finish: () => stream.finish(),
    close: () => stream.close(),
  }
}
