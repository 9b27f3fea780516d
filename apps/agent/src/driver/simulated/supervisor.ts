// The supervisor of execs in a simulated guest: the same operations and answers as apps/agent/supervisor, kept as a file for each
// exec on the guest's disk. A command gets its input at its end, and its output appears when it has ended.
import { hash } from 'node:crypto'
import { isFolder } from './files.ts'
import { isProgram, runArray, runShell, type ShellWorld } from './shell.ts'

interface Kept {
  bootId: string
  createdAt: number
  endedAt: number
  code: number
  signal: number
  reason: string
  flags: number
  timeoutSecs: number
  stdin: string
  inputEnds: boolean
  stdout: string
  stderr: string
  title: string
  argv: string[]
  /** A watch keeps the digests of the files that were there when it looked last. */
  seen?: Record<string, string>
}

export interface SupervisorWorld extends ShellWorld {
  bootId: string
  paths(folder: string): string[]
  /** What goes on while the guest runs, after the answer. */
  inBackground(work: Promise<void>): void
}

const [tty, hasInput] = [1, 2]
const pollMs = 10
const timedOut = 'timeout'

export async function runSupervisor(world: SupervisorWorld, words: string[], input: Buffer): Promise<Buffer> {
  return Buffer.from(await answerTo(world, words, input))
}

async function answerTo(world: SupervisorWorld, words: string[], input: Buffer): Promise<string> {
  const [where = '', operation = '', id = '', ...args] = words
  const folder = `/var/lib/dormouse/${where}`
  const path = `${folder}/${id}`
  const read = () => lookAgain(world, path)
  if (operation === 'list') {
    const all = world.paths(`${folder}/`).map((each) => [each, JSON.parse(world.read(each)!) as Kept] as const)
    const listed = all.filter(([, kept]) => id !== 'running' || stateOf(world, kept) === 'running')
    return `${listed.map(([each, kept]) => statusOf(world, each.slice(folder.length + 1), kept)).join('')}all\n`
  }
  if (operation === 'start' && !read()) {
    const argv = args.slice(7 + Number(args[6]))
    if (!isProgram(argv[0] ?? '')) return 'no program\n'
    start(world, path, args, argv)
  }
  if (operation === 'watch.start' && !read()) start(world, path, ['8'], ['dormouse', folder, 'watch', id, ...args])
  const kept = read()
  if (!kept) return 'no unknown\n'
  if (operation === 'read') return readOutput(world, read, id, args)
  if (operation === 'write') return write(world, path, kept, args, input)
  if (operation === 'remove') {
    world.remove(path)
    return 'removed\n'
  }
  if (operation === 'signal' && stateOf(world, kept) === 'running') end(world, path, { signal: Number(args[0]) })
  return statusOf(world, id, read()!)
}

function start(world: SupervisorWorld, path: string, [flags, timeout = '0']: string[], argv: string[]): void {
  const kept: Kept = {
    bootId: world.bootId,
    createdAt: Math.floor(world.nowMs() / 1_000),
    ...{ endedAt: 0, code: 0, signal: 0, reason: '-', flags: Number(flags), timeoutSecs: Number(timeout) },
    ...{ stdin: '', inputEnds: (Number(flags) & hasInput) === 0, stdout: '', stderr: '', title: argv.join(' '), argv },
  }
  world.write(path, JSON.stringify(kept))
  if (!isWatch(kept)) world.inBackground(run(world, path))
}

async function run(world: SupervisorWorld, path: string): Promise<void> {
  const read = () => JSON.parse(world.read(path) ?? 'null') as Kept | null
  while (read()?.inputEnds === false) await world.sleep(pollMs)
  const kept = read()
  if (!kept || kept.endedAt > 0) return
  const { argv, stdin, timeoutSecs } = kept
  const input = Buffer.from(stdin, 'base64').toString()
  const out = { stdout: '', stderr: '' }
  const running = argv[1] === '-c' ? runShell(world, argv[2]!, input, out) : runArray(world, argv, input, out)
  running.catch(() => undefined)
  const late =
    timeoutSecs > 0 ? world.sleep(timeoutSecs * 1_000).then(() => undefined) : new Promise<undefined>(() => undefined)
  const result = await Promise.race([running, late])
  if (!result) return end(world, path, { signal: 9, reason: timedOut, ...out })
  const isTerminal = (kept.flags & tty) !== 0
  end(world, path, {
    code: result.exitCode,
    stdout: isTerminal ? result.stdout + result.stderr : result.stdout,
    stderr: isTerminal ? '' : result.stderr,
  })
}

function end(world: SupervisorWorld, path: string, how: Partial<Kept>): void {
  const kept = JSON.parse(world.read(path) ?? 'null') as Kept | null
  if (!kept || kept.endedAt > 0) return
  world.write(path, JSON.stringify({ ...kept, ...how, endedAt: Math.floor(world.nowMs() / 1_000) }))
}

async function readOutput(
  world: SupervisorWorld,
  read: () => Kept | null,
  id: string,
  args: string[],
): Promise<string> {
  const [stream, offset, most, waitMs] = [args[0], ...args.slice(1).map(Number)] as [string, number, number, number]
  const until = Date.now() + waitMs
  for (;;) {
    const kept = read()
    if (!kept) return 'no unknown\n'
    const bytes = Buffer.from(stream === 'err' ? kept.stderr : kept.stdout)
    if (bytes.length > offset || stateOf(world, kept) !== 'running' || Date.now() >= until) {
      const part = bytes.subarray(offset, offset + most)
      return `${statusOf(world, id, kept)}data ${Math.min(offset, bytes.length)} ${part.length}\n${part.toString()}`
    }
    await world.sleep(pollMs)
  }
}

function write(world: SupervisorWorld, path: string, kept: Kept, [offset, ends]: string[], given: Buffer): string {
  const before = Buffer.from(kept.stdin, 'base64')
  if ((kept.flags & hasInput) === 0) return 'no input\n'
  if (Number(offset) > before.length) return `gap ${before.length}\n`
  const more = given.subarray(before.length - Number(offset))
  if (more.length > 0 && (kept.inputEnds || stateOf(world, kept) !== 'running')) return 'no closed\n'
  const stdin = Buffer.concat([before, more]).toString('base64')
  world.write(path, JSON.stringify({ ...kept, stdin, inputEnds: kept.inputEnds || ends === '1' }))
  return `end ${Number(offset) + given.length}\n`
}

const stateOf = ({ bootId }: SupervisorWorld, kept: Kept): 'exited' | 'running' | 'lost' => {
  if (kept.endedAt > 0) return 'exited'
  return kept.bootId === bootId ? 'running' : 'lost'
}

function statusOf(world: SupervisorWorld, id: string, kept: Kept): string {
  const state = stateOf(world, kept)
  const sizes = [kept.stdout, kept.stderr].map((text) => `0 ${Buffer.byteLength(text)}`).join(' ')
  const input = `${Buffer.from(kept.stdin, 'base64').length} ${kept.inputEnds ? 1 : 0}`
  const reason = state === 'lost' ? 'boot' : kept.reason
  const ended = `${kept.createdAt} ${kept.endedAt} ${kept.flags} ${kept.timeoutSecs}`
  const title = Buffer.from(kept.title).subarray(0, 508).toString('base64')
  return `exec ${id} ${state} ${kept.code} ${kept.signal} ${reason} ${ended} ${sizes} ${input} ${title}\n`
}

/** A simulated watch looks when it is read. So it sees what changed, and not how often. */
const isWatch = ({ argv }: Kept): boolean => argv[2] === 'watch'

function lookAgain(world: SupervisorWorld, path: string): Kept | null {
  const kept = JSON.parse(world.read(path) ?? 'null') as Kept | null
  if (!kept || !isWatch(kept) || stateOf(world, kept) !== 'running') return kept
  const [, , , , top = '', deep] = kept.argv
  const below = world.paths(`${top}/`).filter((file) => deep === '1' || !file.slice(top.length + 1).includes('/'))
  const now = Object.fromEntries(below.map((file) => [file, hash('sha256', world.read(file) ?? '')]))
  const before = kept.seen
  const line = (what: string, file: string) => `${what} f ${Buffer.from(file).toString('base64')}\n`
  const removed = Object.keys(before ?? {}).filter((file) => !(file in now))
  const added = below.filter((file) => before && !(file in before))
  const written = below.filter((file) => before && before[file] !== now[file])
  const isThere = isFolder(world.paths('/'), top)
  const printed = before
    ? [
        ...removed.map((file) => line('d', file)),
        ...added.map((file) => line('c', file)),
        ...written.map((file) => line('w', file)),
      ].join('')
    : isThere
      ? 'r\n'
      : 'e 2\n'
  if (before && printed === '') return kept
  const next = { ...kept, seen: now, stdout: kept.stdout + printed }
  world.write(path, JSON.stringify(next))
  if (!isThere) end(world, path, {})
  return JSON.parse(world.read(path)!) as Kept
}
