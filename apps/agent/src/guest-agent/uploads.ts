// Uploads in several parts through QEMU's guest agent.
import type { UploadCommand, UploadResult } from '@dormouse/contract'
import type { AgentCall } from '../driver/guest-access.ts'
import type { UploadAppend } from '../driver/guest-transport.ts'
import { unlessRefused } from '../scripts/file-failures.ts'
import {
  appendScript,
  checkOffset,
  parseUpload,
  printPath,
  type UploadTarget,
  uploadScript,
} from '../scripts/uploads.ts'
import { asFileRefusal, runFileScript } from './file-script.ts'
import { openHandle, writeBytes } from './handles.ts'

export async function uploadStepThroughAgent(call: AgentCall, command: UploadCommand): Promise<UploadResult> {
  return parseUpload(await runFileScript(call, uploadScript(command)))
}

export async function appendThroughAgent(call: AgentCall, target: UploadTarget, offset: number): Promise<UploadAppend> {
  const printed = (await runFileScript(call, appendScript(target, offset, printPath))).toString('utf8')
  const end = printed.indexOf('\n')
  checkOffset(printed.slice(0, end), offset)
  const handle = await asFileRefusal(openHandle(call, printed.slice(end + 1, -1), 'r+'))
  const close = () => asFileRefusal(call('guest-file-close', { handle }))
  try {
    await asFileRefusal(call('guest-file-seek', { handle, offset, whence: 0 }))
  } catch (error) {
    await unlessRefused(close())
    throw error
  }
  return {
    write: (bytes) => asFileRefusal(writeBytes(call, handle, bytes)),
    finish: async () => {
      // The agent writes what it has buffered here, so a full disk is reported here.
      const flushed = asFileRefusal(call('guest-file-flush', { handle }))
      await flushed.finally(close)
    },
    close: () => void unlessRefused(close()).catch(() => undefined),
  }
}
