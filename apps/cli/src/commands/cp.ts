// cp: copies a file into an awake desktop, or out of it. The target is complete or unchanged.
import { createReadStream, createWriteStream } from 'node:fs'
import { realpath, rename, rm, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { type Command, InvalidArgumentError } from 'commander'
import type { Context } from '../context.ts'
import { CliError, exitCodes } from '../failures.ts'
import { type GuestPlace, guestPlace } from '../guest-place.ts'
import { type JsonOption, withJson } from '../options.ts'
import { seconds } from '../terminal.ts'

interface CpOptions extends JsonOption {
  mode?: string
}

const example = `dormouse cp report.txt 019a9f00-0000-7000-8000-000000000001:/srv/report.txt
dormouse cp 019a9f00-0000-7000-8000-000000000001:/var/log/app.log .`

const mib = 1024 * 1024
const uploadMaxBytes = 8 * mib

/** Adds the command that copies. */
export function addCp(program: Command, context: Context): void {
  withJson(program.command('cp'), example)
    .description('copy a file into an awake desktop (at most 8 MiB) or out of it (any size)')
    .argument('<from>', 'a local file, or <id>:<path>')
    .argument('<to>', 'a local file or folder, or <id>:<path>')
    .option('--mode <mode>', 'octal mode of the new file; by default the local file’s', octal)
    .action((from: string, to: string, options: CpOptions) => cp(context, from, to, options))
}

async function cp(context: Context, from: string, to: string, options: CpOptions): Promise<void> {
  if (from === '-' || to === '-')
    throw new CliError('- is not a file', 'name a file; `dormouse exec -i` sends standard input', exitCodes.usage)
  const [source, target] = [guestPlace(from), guestPlace(to)]
  if (source && !target) return download(context, source, to, options)
  if (target && !source) return upload(context, from, target, options)
  throw new CliError(
    'neither path, or both, name a desktop’s file',
    'write exactly one as <id>:<path>; `dormouse cp --help` shows an example',
    exitCodes.usage,
  )
}

async function upload(context: Context, from: string, { id, path }: GuestPlace, options: CpOptions): Promise<void> {
  context.about.id = id
  const { size, mode, isFile } = await look(from)
  if (!isFile) throw new CliError(`${from} is not a file`, 'copy one file at a time', exitCodes.usage)
  if (size > uploadMaxBytes) {
    const next = 'split it, or let the desktop download it: dormouse exec <id> -- wget …'
    throw new CliError(`${from} has ${amount(size)}; one copy takes at most 8 MiB`, next, exitCodes.usage)
  }
  const file = path.endsWith('/') ? path + basename(from) : path
  const progress = context.terminal.progress(basename(from), size)
  const source = createReadStream(from).on('data', (chunk) => progress.add(chunk.length))
  let unread: Error | undefined
  source.once('error', (error) => {
    unread = unreadable(from, error)
  })
  const bytes = Readable.toWeb(source)
  const call = { mode: options.mode ?? `0${(mode & 0o777).toString(8)}`, signal: context.terminal.signal }
  const written = await context
    .customer()
    .writeFile(id, file, bytes as ReadableStream<Uint8Array>, call)
    .catch((error: unknown) => {
      throw unread ?? error
    })
    .finally(() => progress.end())
  context.show(options, { ...written, duration_ms: progress.elapsedMs() }, () => told(written, progress.elapsedMs()))
}

async function download(context: Context, { id, path }: GuestPlace, to: string, options: CpOptions): Promise<void> {
  context.about.id = id
  const folder = await stat(to).catch(() => undefined)
  // A link stays; its target is replaced.
  const named = folder?.isDirectory() ? join(to, basename(path)) : to
  const file = await realpath(named).catch(() => named)
  const there = await stat(file).catch(() => undefined)
  if (there && !there.isFile()) throw new CliError(`${file} is not a regular file`, 'name another', exitCodes.usage)
  const { signal } = context.terminal
  const stream = await context.customer().readFile(id, path, { format: 'stream', signal })
  const progress = context.terminal.progress(basename(path))
  const part = `${file}.${process.pid}.part`
  try {
    const size = await save(stream, part, (bytes) => progress.add(bytes))
    await rename(part, file)
    progress.end()
    const came = { path: file, size }
    context.show(options, { ...came, duration_ms: progress.elapsedMs() }, () => told(came, progress.elapsedMs()))
  } catch (error) {
    progress.end()
    await rm(part, { force: true })
    signal.throwIfAborted()
    throw asCliError(error)
  }
}

async function save(stream: ReadableStream<Uint8Array>, part: string, add: (bytes: number) => void): Promise<number> {
  let size = 0
  const counted = async function* (source: AsyncIterable<Uint8Array>) {
    for await (const bytes of source) {
      size += bytes.length
      add(bytes.length)
      yield bytes
    }
  }
  await pipeline(stream, counted, createWriteStream(part, { flags: 'wx' }))
  return size
}

/** fetch reports a lost connection as TypeError; what has a code is a failure of the local disk. */
function asCliError(error: unknown): unknown {
  const { code, message } = error as NodeJS.ErrnoException
  if (error instanceof TypeError)
    return new CliError('the transfer was interrupted; nothing was written', 'retry', exitCodes.unavailable)
  return code ? new CliError(message, 'nothing was written; free space or name another file') : error
}

async function look(file: string): Promise<{ size: number; mode: number; isFile: boolean }> {
  const found = await stat(file).catch((error: NodeJS.ErrnoException) => {
    throw unreadable(file, error)
  })
  return { size: found.size, mode: found.mode, isFile: found.isFile() }
}

const unreadable = (file: string, { code }: NodeJS.ErrnoException) =>
  new CliError(`${file} cannot be read (${code})`, 'check its name and its permissions', exitCodes.usage)

const told = ({ path, size }: { path: string; size: number }, ms: number) =>
  `${path}  ${amount(size)} in ${seconds(ms)}, ${rate(size, ms)}\n`

/** Bytes as people read them. */
export const amount = (bytes: number): string =>
  bytes < 1024 ? `${bytes} B` : bytes < mib ? `${(bytes / 1024).toFixed(1)} KiB` : `${(bytes / mib).toFixed(1)} MiB`

const rate = (bytes: number, ms: number) => `${(bytes / mib / (Math.max(ms, 1) / 1_000)).toFixed(1)} MiB/s`

function octal(text: string): string {
  if (/^[0-7]{3,4}$/.test(text)) return text
  throw new InvalidArgumentError('It must be an octal mode, such as 0644.')
}
