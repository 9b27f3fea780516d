// Files through QEMU's guest agent, in pieces that its channel can bear.
import { randomBytes } from 'node:crypto'
import { refuse } from '@dormouse/contract'
import { z } from 'zod'
import type { FileDownload, FileUpload } from '../driver/guest-transport.ts'
import { untilHeard } from '../mechanics/deadlines.ts'
import { asReading, fileRefusal, unlessGone } from '../scripts/file-failures.ts'
import {
  abandonScript,
  checkScript,
  commitScript,
  createScript,
  type Place,
  readPlace,
  removeScript,
} from '../scripts/files.ts'
import { type AgentCall, AgentRefused, runAside, startProgram, understood, untilEnded } from './programs.ts'

/** Host to guest, 64 KiB at a time are safe; base64 takes a third more. */
const writeBytesAtOnce = 45 * 1024
const readBytesAtOnce = 512 * 1024
/** A script that makes folders or moves a file waits for nothing but the guest's disk. */
const scriptMs = 30_000

const handleAnswer = z.int()
const readAnswer = z.object({ 'buf-b64': z.string(), eof: z.boolean() })

/** Writes through an open handle. */
export async function writeBytes(call: AgentCall, handle: number, bytes: Buffer): Promise<void> {
  for (let at = 0; at < bytes.length; at += writeBytesAtOnce) {
    const part = bytes.subarray(at, at + writeBytesAtOnce).toString('base64')
    await call('guest-file-write', { handle, 'buf-b64': part })
  }
}

export async function uploadThroughAgent(call: AgentCall, path: string, mode: number | null): Promise<FileUpload> {
  const printed = await script(call, createScript(path, randomBytes(12).toString('hex')))
  const place = readPlace(printed) ?? refuse('guest_unavailable', 'the guest answered nonsense')
  try {
    const handle = await told(call('guest-file-open', { path: place.temporary, mode: 'w' }))
    return new AgentUpload(call, place, understood(handleAnswer, handle), mode)
  } catch (error) {
    await abandon(call, place)
    throw error
  }
}

class AgentUpload implements FileUpload {
  readonly #call: AgentCall
  readonly #place: Place
  readonly #handle: number
  readonly #mode: number | null
  #size = 0
  #open = true

  constructor(call: AgentCall, place: Place, handle: number, mode: number | null) {
    this.#call = call
    this.#place = place
    this.#handle = handle
    this.#mode = mode
  }

  async write(bytes: Buffer): Promise<void> {
    await told(writeBytes(this.#call, this.#handle, bytes))
    this.#size += bytes.length
  }

  async commit(): Promise<number> {
    // What the agent still holds back is written here, and a full disk says so.
    await told(this.#call('guest-file-flush', { handle: this.#handle }))
    await this.#close()
    await script(this.#call, commitScript(this.#place, this.#size, this.#mode))
    return this.#size
  }

  async abandon(): Promise<void> {
    await unlessGone(this.#close())
    await abandon(this.#call, this.#place)
  }

  async #close(): Promise<void> {
    if (!this.#open) return
    this.#open = false
    await told(this.#call('guest-file-close', { handle: this.#handle }))
  }
}

export async function openThroughAgent(call: AgentCall, path: string): Promise<FileDownload> {
  await script(call, checkScript(path)).catch(asReading)
  const handle = understood(handleAnswer, await told(call('guest-file-open', { path, mode: 'r' })).catch(asReading))
  let [open, ended] = [true, false]
  return {
    read: async () => {
      if (ended) return undefined
      const answer = understood(readAnswer, await told(call('guest-file-read', { handle, count: readBytesAtOnce })))
      const bytes = Buffer.from(answer['buf-b64'], 'base64')
      ended = answer.eof || bytes.length === 0
      return bytes.length > 0 ? bytes : undefined
    },
    close: async () => {
      if (!open) return
      open = false
      await unlessGone(told(call('guest-file-close', { handle })))
    },
  }
}

/** What a script prints; its refusal where the guest's file system refused it. */
async function script(call: AgentCall, text: string): Promise<Buffer> {
  const pid = await startProgram(call, { path: '/bin/sh', arg: ['-c', text], 'capture-output': true })
  const ended = await untilEnded(call, pid, performance.now() + scriptMs)
  if (!ended) return refuse('guest_deadline', `the guest’s file system did not answer within ${scriptMs / 1_000} s`)
  if (ended.exitCode !== 0) throw fileRefusal(ended.stderr.toString('utf8'))
  return ended.stdout
}

async function abandon(call: AgentCall, place: Place): Promise<void> {
  if (!(await unlessGone(runAside(call, abandonScript(place)))))
    untilHeard(() => unlessGone(runAside(call, removeScript(place))))
}

/** The agent's own refusals end with the words of the guest's file system. */
async function told<T>(calling: Promise<T>): Promise<T> {
  try {
    return await calling
  } catch (error) {
    throw error instanceof AgentRefused ? fileRefusal(error.message, error) : error
  }
}
