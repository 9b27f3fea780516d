// Files through QEMU's guest agent: the scripts create, place and remove them, the agent's handles carry the bytes.
import { randomBytes } from 'node:crypto'
import { type RangeHead, refuse } from '@dormouse/contract'
import type { AgentCall } from '../driver/guest-access.ts'
import type { ChooseRange, FileDownload, FileUpload, RangeDownload } from '../driver/guest-transport.ts'
import { retryInBackground } from '../mechanics/retries.ts'
import { asReading, unlessRefused } from '../scripts/file-failures.ts'
import {
  abandonScript,
  checkScript,
  commitScript,
  createScript,
  type NewFile,
  openForReading,
  type Place,
  parsePlace,
  parseVersion,
  printVersion,
  removeScript,
} from '../scripts/files.ts'
import { fileLimits } from '../scripts/limits.ts'
import { asFileRefusal, runFileScript } from './file-script.ts'
import { openHandle, readBytes, writeBytes } from './handles.ts'
import { runScript } from './programs.ts'

export async function uploadThroughAgent(call: AgentCall, file: NewFile): Promise<FileUpload> {
  const printed = await runFileScript(call, createScript(file, randomBytes(12).toString('hex')))
  const place = parsePlace(printed) ?? refuse('guest_unavailable', 'the guest did not report where it created the file')
  try {
    const handle = await asFileRefusal(openHandle(call, place.temporary, 'w'))
    return new AgentUpload(call, place, handle, file)
  } catch (error) {
    await abandon(call, place)
    throw error
  }
}

class AgentUpload implements FileUpload {
  readonly #call: AgentCall
  readonly #place: Place
  readonly #handle: number
  readonly #file: NewFile
  #size = 0
  #isOpen = true

  constructor(call: AgentCall, place: Place, handle: number, file: NewFile) {
    this.#call = call
    this.#place = place
    this.#handle = handle
    this.#file = file
  }

  async write(bytes: Buffer): Promise<void> {
    await asFileRefusal(writeBytes(this.#call, this.#handle, bytes))
    this.#size += bytes.length
  }

  async commit(): Promise<number> {
    // The agent writes what it has buffered here, so a full disk is reported here.
    await asFileRefusal(this.#call('guest-file-flush', { handle: this.#handle }))
    await this.#close()
    await runFileScript(this.#call, commitScript(this.#place, this.#size, this.#file))
    return this.#size
  }

  async abandon(): Promise<void> {
    await unlessRefused(this.#close())
    await abandon(this.#call, this.#place)
  }

  async #close(): Promise<void> {
    if (!this.#isOpen) return
    this.#isOpen = false
    await asFileRefusal(this.#call('guest-file-close', { handle: this.#handle }))
  }
}

interface AgentDownload extends FileDownload {
  handle: number
}

export async function openThroughAgent(call: AgentCall, path: string): Promise<AgentDownload> {
  await runFileScript(call, checkScript(path)).catch(asReading)
  const handle = await asFileRefusal(openHandle(call, path, 'r')).catch(asReading)
  let [isOpen, isAtEnd] = [true, false]
  return {
    handle,
    read: async () => {
      if (isAtEnd) return undefined
      const { bytes, eof } = await asFileRefusal(readBytes(call, handle))
      isAtEnd = eof
      return bytes.length > 0 ? bytes : undefined
    },
    close: async () => {
      if (!isOpen) return
      isOpen = false
      await unlessRefused(asFileRefusal(call('guest-file-close', { handle })))
    },
  }
}

export async function openRangeThroughAgent(
  call: AgentCall,
  path: string,
  choose: ChooseRange,
): Promise<RangeDownload> {
  const printed = await runFileScript(call, checkScript(path, openForReading + printVersion)).catch(asReading)
  const file = parseVersion(printed.toString('latin1').trimEnd())
  const sent = choose(file)
  const download = await openThroughAgent(call, path)
  const head = { ...file, sent }
  return { head, ...(await partOf(call, download, sent)) }
}

/** The file from its first byte on, for so long; nothing of it if that is null. */
async function partOf(call: AgentCall, file: AgentDownload, sent: RangeHead['sent']): Promise<FileDownload> {
  let left = sent?.length ?? 0
  try {
    if (sent) await asFileRefusal(call('guest-file-seek', { handle: file.handle, offset: sent.first, whence: 0 }))
  } catch (error) {
    await file.close()
    throw error
  }
  const read = async () => {
    if (left === 0) return undefined
    const bytes = (await file.read())?.subarray(0, left)
    left -= bytes?.length ?? left
    return bytes
  }
  return { read, close: file.close }
}

/** Removes an unfinished file; in the background if the guest does not answer now. */
async function abandon(call: AgentCall, place: Place): Promise<void> {
  if (await unlessRefused(runScript(call, abandonScript(place)))) return
  const remove = () => unlessRefused(runScript(call, removeScript(place)))
  void retryInBackground(fileLimits.removeTries, fileLimits.removeEveryMs, remove)
}
