// Guarantee: the supervisor starts each exec once, keeps its output exactly and bounded, takes its input once, and records its end
// only when everything is on the disk. The real program runs here, on this machine, as in a guest.
import { execFileSync, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { newId } from '@dormouse/contract'
import { afterAll, expect, test } from 'vitest'
import { compile, compiler } from '../../../scripts/testbed/static-program.ts'
import { waitFor } from '../../../test/wait-for.ts'
import { answerOf, type ExecReport, parseRead, parseStatus } from '../src/scripts/supervisor.ts'
import { supervisorCompiler, supervisorProgram } from '../src/scripts/supervisor-program.ts'
import { supervisorSource } from './build.ts'

const folder = mkdtempSync(join(tmpdir(), 'dormouse-execs-'))
const program = join(folder, 'supervise')
const kept = join(folder, 'execs')
writeFileSync(program, supervisorProgram)
chmodSync(program, 0o700)
mkdirSync(kept)
const started: string[] = []
afterAll(() => {
  for (const id of started) run('remove', [id, 5_000])
  rmSync(folder, { recursive: true })
})

const run = (operation: string, args: (string | number)[], input = '') =>
  execFileSync(program, [kept, operation, ...args.map(String)], { input, maxBuffer: 2 ** 21 })

interface How {
  flags?: number
  timeoutSecs?: number
}
function start(command: string, { flags = 0, timeoutSecs = 0 }: How = {}, id: string = newId()): string {
  started.push(id)
  answerOf(run('start', [id, flags, timeoutSecs, 80, 24, '', 0, 0, 'sh', '-c', command]))
  return id
}
const get = (id: string): ExecReport => parseStatus(answerOf(run('get', [id]))[0]!)
const ended = (id: string): Promise<ExecReport> =>
  waitFor(`${id} to end`, () => (get(id).state === 'running' ? undefined : get(id)))
function read(id: string, offset = 0, { stream = 'out', most = 720 * 1_024, waitMs = 0 } = {}) {
  const { exec, from, bytes } = parseRead(run('read', [id, stream, offset, most, waitMs]))
  return { exec, from, bytes, next: from + bytes.length }
}
const write = (id: string, offset: number, text: string, ends = false) =>
  run('write', [id, offset, ends ? 1 : 0, 2_000], text)
    .toString()
    .trim()
const [tty, input, waits] = [1, 2, 16]

/** The supervisors of this folder, found by their arguments. */
const supervisors = (): string[] =>
  readdirSync('/proc').filter((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, 'utf8').startsWith(program)
    } catch {
      return false
    }
  })

test('the committed program is what this source becomes', () => {
  if (compiler() !== supervisorCompiler) return
  expect(createHash('sha256').update(compile(supervisorSource)).digest('hex')).toBe(
    createHash('sha256').update(supervisorProgram).digest('hex'),
  )
})

test('exit code, signal and both streams are the command’s; the same id again starts nothing', async () => {
  const file = join(folder, 'times')
  const id = start(`echo x >>${file}; echo out; echo err >&2; exit 7`)
  start('echo another', {}, id)
  expect(await ended(id)).toMatchObject({ state: 'exited', exit_code: 7, signal: null, stdout: { start: 0, end: 4 } })
  expect([read(id).bytes.toString(), read(id, 0, { stream: 'err' }).bytes.toString()]).toEqual(['out\n', 'err\n'])
  expect(readFileSync(file, 'utf8')).toBe('x\n')
  expect(await ended(start('kill -9 $$'))).toMatchObject({ exit_code: null, signal: 9, reason: null })
  const late = start('sleep 60 & wait', { timeoutSecs: 1 })
  expect(await ended(late)).toMatchObject({ signal: 9, reason: 'timeout' })
})

test('a program that cannot start leaves nothing, and is named', () => {
  const id = newId()
  for (const [name, why] of [
    ['/no/such/program', 'the guest has no program "/no/such/program"'],
    ['no-such', 'the guest has no program "no-such"'],
    ['/etc/passwd', 'the guest cannot execute "/etc/passwd"'],
    ['/tmp', 'the guest has no program "/tmp"'],
  ] as const) {
    const asked = { command: [name], cwd: null }
    expect(() => answerOf(run('start', [id, 0, 0, 0, 0, '', 0, 0, name]), asked)).toThrow(`command_not_run: ${why}`)
    expect(() => answerOf(run('get', [id]))).toThrow('the desktop keeps no such exec')
    expect(readdirSync(kept).filter((each) => each.includes(id))).toEqual([])
  }
})

test('a program is looked up as the system does: an empty part of PATH is the present folder', async () => {
  writeFileSync(join(folder, 'here'), '#!/bin/sh\nexit 3\n', { mode: 0o755 })
  for (const PATH of ['', ':/no/such', '/no/such:', '/no::/such', folder]) {
    const id = newId()
    started.push(id)
    execFileSync(program, [kept, 'start', id, '0', '0', '0', '0', '', '0', '0', 'here'], {
      cwd: folder,
      env: { PATH },
    })
    expect([PATH, (await ended(id)).exit_code]).toEqual([PATH, 3])
  }
})

test('output that nobody reads never blocks; what no longer fits is counted, and the rest is exact', async () => {
  const bytes = 40 * 2 ** 20
  const id = start(`yes 0123456789abcde | head -c ${bytes}`)
  const { stdout } = await ended(id)
  expect(stdout.end).toBe(bytes)
  expect(stdout.start).toBeGreaterThanOrEqual(bytes - 16 * 2 ** 20)
  expect(stdout.start).toBeLessThan(bytes - 12 * 2 ** 20)
  const { from, bytes: first } = read(id)
  expect(from).toBe(stdout.start)
  expect(first.every((byte, at) => byte === '0123456789abcde\n'.charCodeAt((from + at) % 16))).toBe(true)
  const last = read(id, bytes - 20)
  expect(last.bytes.toString()).toBe('cde\n0123456789abcde\n')
  expect(read(id, bytes)).toMatchObject({ from: bytes, next: bytes })
})

test('a reader beside the writer gets exact bytes, whatever is overwritten meanwhile', async () => {
  const id = start('n=0; while [ $n -lt 100 ]; do yes 0123456789abcde | head -c 262144; n=$((n + 1)); done')
  let [at, dropped] = [0, 0]
  for (;;) {
    const { exec, from, bytes, next } = read(id, at, { waitMs: 1_000 })
    dropped += from - at
    const isExact = bytes.every((byte, n) => byte === '0123456789abcde\n'.charCodeAt((from + n) % 16))
    expect([from, isExact]).toEqual([from, true])
    at = next
    if (exec.state !== 'running' && at === exec.stdout.end) break
  }
  expect(at).toBe(100 * 262_144)
  expect(dropped).toBeLessThan(at)
})

test('a reader that waits gets bytes when they come, and the end', async () => {
  const id = start('cat', { flags: input })
  const waiting = spawn(program, [kept, 'read', id, 'out', '0', '100', '20000'])
  let said = ''
  waiting.stdout.on('data', (chunk) => {
    said += chunk
  })
  const closed = once(waiting, 'close')
  expect(write(id, 0, 'soon')).toBe('end 4')
  await closed
  expect(said).toContain('data 0 4\nsoon')
  write(id, 4, '', true)
  expect(read(id, 4, { waitMs: 20_000 }).exec).toMatchObject({ state: 'exited', exit_code: 0 })
})

test('input: equal offsets append, lower ones trim, higher ones are refused; it ends once', async () => {
  const id = start('cat', { flags: input })
  expect(write(id, 0, 'hello')).toBe('end 5')
  expect(write(id, 0, 'hello')).toBe('end 5')
  expect(write(id, 3, 'lo world')).toBe('end 11')
  expect(write(id, 12, 'x')).toBe('gap 11')
  expect(write(id, 11, '!', true)).toBe('end 12')
  expect(write(id, 11, '!', true)).toBe('end 12')
  expect(() => answerOf(Buffer.from(write(id, 12, 'more')))).toThrow('the command takes no more input')
  await ended(id)
  expect(read(id).bytes.toString()).toBe('hello world!')
  expect(() => answerOf(Buffer.from(write(start('cat'), 0, 'x')))).toThrow('started without input')
})

test('input beyond what the command has read waits, and goes on from where it was taken', async () => {
  const id = start('sleep 0.3; wc -c', { flags: input })
  const text = 'x'.repeat(700_000)
  let at = 0
  while (at < text.length) at = Number(write(id, at, text.slice(at)).split(' ')[1])
  write(id, at, '', true)
  await ended(id)
  expect(read(id).bytes.toString().trim()).toBe('700000')
})

test('what a command leaves in the background keeps running, and its end is not waited for', async () => {
  const file = join(folder, 'left')
  const id = start(`(sleep 0.2; echo more; echo done >${file}) & echo first`)
  expect(await ended(id)).toMatchObject({ exit_code: 0, stdout: { end: 6 } })
  await waitFor('the rest', () => existsSync(file))
  expect(get(id).stdout.end).toBe(6)
})

test('a signal reaches the whole group, and removal ends it', async () => {
  const id = start('sleep 1000 & sleep 1000')
  run('signal', [id, 15])
  expect(await ended(id)).toMatchObject({ signal: 15 })
  const other = start('sleep 1000')
  expect(run('remove', [other, 5_000]).toString()).toBe('removed\n')
  expect(existsSync(join(kept, other))).toBe(false)
})

test('a terminal has its size, its input and its end', async () => {
  const id = start('stty size; read line; stty size; cat', { flags: tty | input })
  await waitFor('the first size', () => read(id).bytes.toString().startsWith('24 80'))
  run('resize', [id, 100, 30])
  write(id, 0, 'go\n')
  await waitFor('the second size', () => read(id).bytes.toString().includes('30 100'))
  expect(write(id, 3, '', true)).toBe('end 3')
  expect(await ended(id)).toMatchObject({ exit_code: 0, tty: true })
})

test('an exec whose supervisor was killed is lost, never a success, and its output is kept', async () => {
  const id = start('echo kept; sleep 1000')
  await waitFor('the output', () => read(id).bytes.length === 5)
  const command = readFileSync(join(kept, id, 'head')).readUInt32LE(84)
  const supervisor = Number(readFileSync(`/proc/${command}/stat`, 'utf8').split(' ')[3])
  process.kill(supervisor, 'SIGKILL')
  expect(await ended(id)).toMatchObject({ state: 'lost', reason: 'supervisor', exit_code: null, stdout: { end: 5 } })
  expect(read(id).bytes.toString()).toBe('kept\n')
  process.kill(-command, 'SIGKILL')
})

test('after a boot a running exec is lost; what had reached the disk is kept', async () => {
  const id = start('echo kept')
  await ended(id)
  const head = join(kept, id, 'head')
  const page = readFileSync(head)
  // As the disk may have it after a power cut: another boot, no end.
  page.write('another-boot', 8)
  page.fill(0, 64, 72)
  writeFileSync(head, page)
  expect(get(id)).toMatchObject({ state: 'lost', reason: 'boot', exit_code: null, stdout: { start: 0, end: 5 } })
  expect(read(id).bytes.toString()).toBe('kept\n')
})

test('many at once and one after another leave no process', async () => {
  const ids = Array.from({ length: 20 }, () => start('echo one'))
  await Promise.all(ids.map(ended))
  await waitFor('the supervisors to end', () => supervisors().length === 0)
  expect(answerOf(run('list', [])).at(-1)).toBe('all')
})

const big = 40 * 2 ** 20
/** As long as given, and the same each time. */
const printing = `yes 0123456789abcdef | head -c ${big}`

test('a command that waits for its reader loses no byte of it, however slow the reader is, and how often it asks again', async () => {
  const id = start(`${printing}; echo end >&2`, { flags: waits })
  await waitFor('it to wait', () => (get(id).stdout.end >= 8 * 2 ** 20 ? true : undefined))
  const seen = createHash('sha256')
  let at = 0
  for (let i = 0; ; i++) {
    const piece = read(id, at, { waitMs: 5_000 })
    expect(piece.from).toBe(at)
    // The answer was lost on its way.
    if (i % 7 === 3) continue
    seen.update(piece.bytes)
    at = piece.next
    expect(piece.exec.stdout.end - at).toBeLessThanOrEqual(9 * 2 ** 20)
    if (piece.bytes.length === 0 && piece.exec.state === 'exited') break
  }
  expect(at).toBe(big)
  expect(seen.digest('hex')).toBe(
    createHash('sha256')
      .update(execFileSync('sh', ['-c', printing], { maxBuffer: 2 * big }))
      .digest('hex'),
  )
  expect(read(id, 0, { stream: 'err' }).bytes.toString()).toBe('end\n')
})

test('a command whose reader has gone goes on, and says what was dropped; a timeout and a signal end one that waits', async () => {
  const id = start(printing, { flags: waits })
  const [late, killed] = [start(printing, { flags: waits, timeoutSecs: 1 }), start(printing, { flags: waits })]
  await waitFor('it to wait', () => (get(id).stdout.end >= 8 * 2 ** 20 ? true : undefined))
  expect(await ended(late)).toMatchObject({ reason: 'timeout' })
  run('signal', [killed, 9])
  expect(await ended(killed)).toMatchObject({ signal: 9 })
  expect(get(id).state).toBe('running')
  // Its reader has been away for a minute: `read_at` of the stream, by the clock of the guest.
  const head = openSync(join(kept, id, 'head'), 'r+')
  const readAt = Buffer.alloc(4)
  readSync(head, readAt, 0, 4, 180)
  readAt.writeUInt32LE(readAt.readUInt32LE() - 60)
  writeSync(head, readAt, 0, 4, 180)
  closeSync(head)
  const { stdout, exit_code } = await ended(id)
  expect([exit_code, stdout.end, stdout.start]).toEqual([0, big, big - 16 * 2 ** 20])
  expect(read(id).from).toBe(stdout.start)
})
