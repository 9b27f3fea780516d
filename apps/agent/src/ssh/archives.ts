// Folders as tar archives over a guest's SSH connection: the guest's own tar packs and unpacks them, in scripts.

import { randomBytes } from 'node:crypto'
import { refuse } from '@dormouse/contract'
import type { GuestConnection } from '../driver/guest-connection.ts'
import type { FileDownload, FileUpload } from '../driver/guest-transport.ts'
import { retryInBackground } from '../mechanics/retries.ts'
import {
  abandonScript,
  type Place,
  packScript,
  parsePlace,
  placeScript,
  removeScript,
  type UnpackTarget,
  unpackScript,
} from '../scripts/archives.ts'
import { printedBy, unlessRefused } from '../scripts/file-failures.ts'
import { fileLimits } from '../scripts/limits.ts'
import type { GuestCalls } from './calls.ts'
import { runCommand } from './exec.ts'
import { ScriptStream } from './script-stream.ts'

/** What the script prints after its first byte, which means that the folder is open. */
export async function openArchiveOverSsh(connection: GuestConnection, path: string): Promise<FileDownload> {
  const stream = await ScriptStream.start(connection, packScript(path))
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

/** The script prints its place and then takes the archive. */
export async function unpackOverSsh(
  connection: GuestConnection,
  calls: Pick<GuestCalls, 'call'>,
  target: UnpackTarget,
): Promise<FileUpload> {
  const script = unpackScript(target, randomBytes(12).toString('hex'))
  const stream = await ScriptStream.start(connection, script)
  const place = await readPlace(stream)
  stream.discardOutput()
  return new Unpacking(connection, calls, stream, place, target.owner)
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
  return refuse('guest_unavailable', 'the guest did not report where it unpacks the archive')
}

class Unpacking implements FileUpload {
  readonly #connection: GuestConnection
  readonly #calls: Pick<GuestCalls, 'call'>
  readonly #stream: ScriptStream
  readonly #place: Place
  readonly #owner: string | null
  #size = 0

  constructor(
    connection: GuestConnection,
    calls: Pick<GuestCalls, 'call'>,
    stream: ScriptStream,
    place: Place,
    owner: string | null,
  ) {
    this.#connection = connection
    this.#calls = calls
    this.#stream = stream
    this.#place = place
    this.#owner = owner
  }

  async write(bytes: Buffer): Promise<void> {
    await this.#connection.sendCapacity()
    await this.#stream.write(bytes)
    this.#size += bytes.length
  }

  async commit(): Promise<number> {
    await this.#stream.finish()
    await this.#run(placeScript(this.#place, this.#owner))
    return this.#size
  }

  async abandon(): Promise<void> {
    this.#stream.close()
    if (await unlessRefused(this.#run(abandonScript(this.#place)))) return
    const remove = () => unlessRefused(this.#run(removeScript(this.#place)))
    void retryInBackground(fileLimits.removeTries, fileLimits.removeEveryMs, remove)
  }

  async #run(command: string): Promise<void> {
    const how = { cwd: null, env: {}, stdin: null, timeoutSecs: fileLimits.scriptSecs }
    const { exitCode, stderr } = await runCommand(this.#calls, { command, ...how })
    printedBy({ exitCode: exitCode ?? undefined, stdout: Buffer.alloc(0), stderr: Buffer.from(stderr) })
  }
}
