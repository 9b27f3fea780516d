// Uploads in several parts over a guest's SSH connection.
import type { UploadCommand, UploadResult } from '@dormouse/contract'
import type { UploadAppend } from '../driver/guest-transport.ts'
import { printedBy } from '../scripts/file-failures.ts'
import { fileLimits } from '../scripts/limits.ts'
import { appendScript, checkOffset, parseUpload, type UploadTarget, uploadScript, writeAt } from '../scripts/uploads.ts'
import type { SshConnection } from './connection.ts'
import { firstLine } from './first-line.ts'
import { runScript } from './run-script.ts'
import { ScriptStream } from './script-stream.ts'

export async function uploadStepOverSsh(connection: SshConnection, command: UploadCommand): Promise<UploadResult> {
  return parseUpload(printedBy(await runScript(connection, uploadScript(command), fileLimits.scriptMs)))
}

export async function appendOverSsh(
  connection: SshConnection,
  target: UploadTarget,
  offset: number,
): Promise<UploadAppend> {
  const stream = await ScriptStream.start(connection, appendScript(target, offset, writeAt(offset)))
  try {
    checkOffset((await firstLine(stream)).line, offset)
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
