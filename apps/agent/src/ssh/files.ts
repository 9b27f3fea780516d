// Files over a guest's SSH connection: a stream of our program for each, on a channel of its own, with back-pressure. Not SFTP: its
// protocol has no error for a full disk.

import { Refusal, refuse } from '@dormouse/contract'
import type { GuestConnection } from '../driver/guest-connection.ts'
import type { ChooseRange, FileUpload, RangeDownload } from '../driver/guest-transport.ts'
import { before } from '../mechanics/deadlines.ts'
import { asReading, unlessRefused } from '../scripts/file-failures.ts'
import { parseVersion, sureMaxBytes } from '../scripts/files.ts'
import { fileLimits } from '../scripts/limits.ts'
import { type FirstLine, firstLine } from './first-line.ts'
import { ScriptStream } from './script-stream.ts'

type Words = readonly (string | number)[]

interface Opened extends FirstLine {
  stream: ScriptStream
}

/** Starts the operation, and waits for its first line. */
export const openStream = (connection: GuestConnection, words: Words): Promise<Opened> =>
  withProgram(connection, async () => {
    const stream = await ScriptStream.operate(connection, words)
    try {
      return { stream, ...(await firstLine(stream)) }
    } catch (error) {
      stream.close()
      throw error
    }
  })

/** The program is brought in if it is missing, or is of another release. */
async function withProgram<T>(connection: GuestConnection, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof Refusal) || error.code !== 'exec_unsupported') throw error
  }
  await connection.meet()
  return work()
}

export async function uploadOverSsh(
  connection: GuestConnection,
  path: string,
  mode: number | null,
  owner?: string | null,
): Promise<FileUpload> {
  const { stream } = await openStream(connection, ['file.write', path, mode ?? '', owner ?? ''])
  return new StreamUpload(connection, stream)
}

/** Each piece goes behind its length, so that a cut is not taken for the end. */
class StreamUpload implements FileUpload {
  readonly #connection: GuestConnection
  readonly #stream: ScriptStream
  /** What the program says at the end. It is read from the start: a failure comes as soon as it happens. */
  readonly #said: Promise<FirstLine>
  #size = 0

  constructor(connection: GuestConnection, stream: ScriptStream) {
    this.#connection = connection
    this.#stream = stream
    this.#said = firstLine(stream)
    this.#said.catch(() => undefined)
  }

  async write(bytes: Buffer): Promise<void> {
    if (bytes.length === 0) return
    await this.#connection.sendCapacity()
    await this.#send(bytes)
    this.#size += bytes.length
  }

  async commit(): Promise<number> {
    await this.#send(Buffer.alloc(0))
    const { line } = await this.#said
    if (line !== `placed ${this.#size}`)
      refuse('guest_unavailable', 'the guest did not report that the file is in its place')
    this.#stream.discardOutput()
    await this.#stream.finish()
    return this.#size
  }

  async abandon(): Promise<void> {
    this.#stream.discardOutput()
    await before(performance.now() + fileLimits.scriptSecs * 1_000, unlessRefused(this.#stream.finish()))
    this.#stream.close()
  }

  #send(bytes: Buffer): Promise<void> {
    const length = Buffer.alloc(4)
    length.writeUInt32LE(bytes.length)
    return this.#stream.write(Buffer.concat([length, bytes]))
  }
}

export async function openOverSsh(
  connection: GuestConnection,
  path: string,
  choose: ChooseRange,
): Promise<RangeDownload> {
  const { stream, line, rest } = await openStream(connection, ['file.read', path]).catch(asReading)
  try {
    const file = parseVersion(line)
    if (file.size <= sureMaxBytes) return await openShort(stream, rest, file.version, choose)
    const sent = choose(file)
    if (sent) await stream.write(Buffer.from(`${sent.first} ${sent.length}\n`))
    else stream.close()
    stream.endInput()
    const read = async () => (sent ? stream.read() : undefined)
    return { head: { ...file, sent }, read, close: async () => stream.close() }
  } catch (error) {
    stream.close()
    throw error
  }
}

/** A file of which nothing is known but what is read. Above the limit, all of it is sent, since its size stays unknown. */
async function openShort(
  stream: ScriptStream,
  first: Buffer,
  version: string,
  choose: ChooseRange,
): Promise<RangeDownload> {
  stream.endInput()
  const pieces: Buffer[] = []
  let size = 0
  for (let bytes: Buffer | undefined = first; bytes; bytes = await stream.read()) {
    pieces.push(bytes)
    size += bytes.length
    if (size <= sureMaxBytes) continue
    const read = async () => pieces.shift() ?? stream.read()
    return { head: { size: 0, version, sent: null, whole: true }, read, close: async () => stream.close() }
  }
  const all = Buffer.concat(pieces)
  const sent = choose({ size, version })
  const parts = sent ? [all.subarray(sent.first, sent.first + sent.length)] : []
  return { head: { size, version, sent }, read: async () => parts.shift(), close: async () => stream.close() }
}
