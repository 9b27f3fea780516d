// Files over a guest's SSH connection. The scripts are the same as through the guest agent; the bytes go through a channel
// of their own, with back-pressure. Not SFTP: its protocol has no error for a full disk.
import { randomBytes } from 'node:crypto'
import { refuse } from '@dormouse/contract'
import type { ChooseRange, FileDownload, FileUpload, RangeDownload } from '../driver/guest-transport.ts'
import { retryInBackground } from '../mechanics/retries.ts'
import { asReading, printedBy, unlessRefused } from '../scripts/file-failures.ts'
import {
  abandonScript,
  commitScript,
  createScript,
  type Place,
  parsePlace,
  parseVersion,
  readScript,
  removeScript,
  sureMaxBytes,
  writeInput,
} from '../scripts/files.ts'
import { fileLimits } from '../scripts/limits.ts'
import type { SshConnection } from './connection.ts'
import { firstLine } from './first-line.ts'
import { runScript } from './run-script.ts'
import { ScriptStream } from './script-stream.ts'

export async function uploadOverSsh(
  connection: SshConnection,
  path: string,
  mode: number | null,
  owner?: string | null,
): Promise<FileUpload> {
  const file = { path, mode, owner }
  const script = createScript(file, randomBytes(12).toString('hex'), writeInput)
  return SshUpload.start(connection, script, (place) => ({
    commit: (size) => commitScript(place, size, file),
    abandon: abandonScript(place),
    remove: removeScript(place),
  }))
}

/** The scripts that end an upload, once its place in the guest is known. */
export interface UploadEnd {
  commit(size: number): string
  abandon: string
  remove: string
}

async function readPlace(stream: ScriptStream): Promise<Place> {
  let printed = Buffer.alloc(0)
  while (printed.length <= fileLimits.placeMaxBytes) {
    const bytes = await stream.read()
    if (!bytes) break
    printed = Buffer.concat([printed, bytes])
    const place = parsePlace(printed)
    if (place) return place
  }
  stream.close()
  return refuse('guest_unavailable', 'the guest did not report where it created the file')
}

export class SshUpload implements FileUpload {
  readonly #connection: SshConnection
  readonly #stream: ScriptStream
  readonly #end: UploadEnd
  #size = 0

  /** Starts the script, which prints its place and then takes the bytes. */
  static async start(
    connection: SshConnection,
    script: string,
    endOf: (place: Place) => UploadEnd,
  ): Promise<SshUpload> {
    const stream = await ScriptStream.start(connection, script)
    const place = await readPlace(stream)
    stream.discardOutput()
    return new SshUpload(connection, stream, endOf(place))
  }

  private constructor(connection: SshConnection, stream: ScriptStream, end: UploadEnd) {
    this.#connection = connection
    this.#stream = stream
    this.#end = end
  }

  async write(bytes: Buffer): Promise<void> {
    await this.#connection.sendCapacity()
    await this.#stream.write(bytes)
    this.#size += bytes.length
  }

  async commit(): Promise<number> {
    await this.#stream.finish()
    printedBy(await this.#run(this.#end.commit(this.#size)))
    return this.#size
  }

  async abandon(): Promise<void> {
    this.#stream.close()
    if (await unlessRefused(this.#run(this.#end.abandon))) return
    const remove = () => unlessRefused(this.#remove())
    void retryInBackground(fileLimits.removeTries, fileLimits.removeEveryMs, remove)
  }

  async #remove(): Promise<void> {
    await this.#connection.connect()
    await this.#run(this.#end.remove)
  }

  #run(script: string) {
    return runScript(this.#connection, script, fileLimits.scriptMs)
  }
}

export async function openOverSsh(
  connection: SshConnection,
  path: string,
  choose: ChooseRange,
): Promise<RangeDownload> {
  const stream = await ScriptStream.start(connection, readScript(path))
  try {
    const { line, rest } = await firstLine(stream).catch(asReading)
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

/** What a script prints after its first byte, which means that what it reads is open. */
export async function downloadOf(connection: SshConnection, script: string): Promise<FileDownload> {
  const stream = await ScriptStream.start(connection, script)
  stream.endInput()
  let first = (await stream.read())?.subarray(1)
  return {
    read: async () => {
      const received = first
      first = undefined
      return received?.length ? received : stream.read()
    },
    close: async () => stream.close(),
  }
}
