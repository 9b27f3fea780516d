// cp: copies a file or a folder into an awake desktop, or out of it. The target is complete or unchanged.
import { createReadStream, createWriteStream, openAsBlob } from 'node:fs'
import { realpath, rename, rm, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { type Command, InvalidArgumentError } from 'commander'
import type { Context } from '../context.ts'
import { CliError, exitCodes } from '../failures.ts'
import { type GuestPlace, guestPlace } from '../guest-place.ts'
import { type JsonOption, withJson } from '../options.ts'
import type { Progress } from '../progress.ts'
import { copyFolderIn } from './copy-folder-in.ts'
import { copyFolderOut } from './copy-folder-out.ts'
import { look, octalOf, oneRequestMaxBytes, told, toldTree, unreadable } from './copying.ts'

interface CpOptions extends JsonOption {
  mode?: string
  recursive?: boolean
}

const example = `dormouse cp report.txt 019a9f00-0000-7000-8000-000000000001:/srv/report.txt
dormouse cp 019a9f00-0000-7000-8000-000000000001:/var/log/app.log .
dormouse cp -r site 019a9f00-0000-7000-8000-000000000001:/srv/site`

/** Adds the command that copies. */
export function addCp(program: Command, context: Context): void {
  withJson(program.command('cp'), example)
    .description('copy a file or a folder into an awake desktop, or out of it')
    .argument('<from>', 'a local file or folder, or <id>:<path>')
    .argument('<to>', 'a local file or folder, or <id>:<path>')
    .option('-r, --recursive', 'copy a folder with everything in it; <to> becomes the folder')
    .option('--mode <mode>', 'octal mode of the new file; by default the local file’s', octal)
    .action((from: string, to: string, options: CpOptions) => cp(context, from, to, options))
}

async function cp(context: Context, from: string, to: string, options: CpOptions): Promise<void> {
  if (from === '-' || to === '-')
    throw new CliError('- is not a file', 'name a file; `dormouse exec -i` sends standard input', exitCodes.usage)
  const [source, target] = [guestPlace(from), guestPlace(to)]
  if (source && !target)
    return options.recursive ? tree(context, options, source, to) : download(context, source, to, options)
  if (target && !source)
    return options.recursive ? tree(context, options, from, target) : upload(context, from, target, options)
  throw new CliError(
    'neither path, or both, name a desktop’s file',
    'write exactly one as <id>:<path>; `dormouse cp --help` shows an example',
    exitCodes.usage,
  )
}

async function upload(context: Context, from: string, { id, path }: GuestPlace, options: CpOptions): Promise<void> {
  context.about.id = id
  const { size, mode, isFile, isFolder } = await look(from)
  if (isFolder) throw new CliError(`${from} is a folder`, 'copy it with -r', exitCodes.usage)
  if (!isFile) throw new CliError(`${from} is not a file`, 'copy another', exitCodes.usage)
  const file = path.endsWith('/') ? path + basename(from) : path
  const progress = context.terminal.progress(basename(from), size)
  const call = { mode: options.mode ?? octalOf(mode), signal: context.terminal.signal }
  const sending = size > oneRequestMaxBytes ? sendInParts : sendAtOnce
  const written = await sending(context, { id, path: file }, from, { ...call, progress }).finally(() => progress.end())
  context.show(options, { ...written, duration_ms: progress.elapsedMs() }, () => told(written, progress.elapsedMs()))
}

interface SendOptions {
  mode: string
  signal: AbortSignal
  progress: Progress
}

async function sendInParts(context: Context, to: GuestPlace, from: string, { progress, ...call }: SendOptions) {
  const path = `/${to.path.replace(/^\/+/, '')}`
  let sent = 0
  const onProgress = (offset: number) => {
    progress.add(offset - sent)
    sent = offset
  }
  const done = await context.customer().upload(to.id, path, await openAsBlob(from), { ...call, onProgress })
  return { path: done.path, size: done.offset }
}

async function sendAtOnce(context: Context, to: GuestPlace, from: string, { progress, ...call }: SendOptions) {
  const source = createReadStream(from).on('data', (chunk) => progress.add(chunk.length))
  let unread: Error | undefined
  source.once('error', (error) => {
    unread = unreadable(from, error)
  })
  const bytes = Readable.toWeb(source)
  return context
    .customer()
    .writeFile(to.id, to.path, bytes as ReadableStream<Uint8Array>, call)
    .catch((error: unknown) => {
      throw unread ?? error
    })
}

/** Copies a folder, one of whose places is in a desktop. */
async function tree(context: Context, options: CpOptions, from: string | GuestPlace, to: string | GuestPlace) {
  const started = performance.now()
  context.about.id = typeof from === 'string' ? (to as GuestPlace).id : from.id
  if (typeof from === 'string' && !(await look(from)).isFolder)
    throw new CliError(`${from} is not a folder`, 'copy it without -r', exitCodes.usage)
  const copied =
    typeof from === 'string'
      ? await copyFolderIn(context, from, to as GuestPlace)
      : await copyFolderOut(context, from, to as string)
  const ms = performance.now() - started
  const { skippedCount, ...shown } = copied
  context.show(options, { ...shown, skipped_count: skippedCount, duration_ms: Math.round(ms) }, () =>
    toldTree(copied, ms),
  )
  if (skippedCount > 0 && !options.json)
    context.terminal.note('Skipped: links, devices and names that are not UTF-8. --json lists them.')
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

function octal(text: string): string {
  if (/^[0-7]{3,4}$/.test(text)) return text
  throw new InvalidArgumentError('It must be an octal mode, such as 0644.')
}
