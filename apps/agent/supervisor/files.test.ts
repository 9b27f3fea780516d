// Guarantee: a written file and its new folders belong to whom they should, and nothing unfinished stays, whatever ends the writer. The
// real program runs here, on this machine, as in a guest.
import { execFileSync, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { Refusal, type UploadCommand } from '@dormouse/contract'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { waitFor } from '../../../test/wait-for.ts'
import { wholeFile } from '../src/driver/guest-transport.ts'
import { supervisorProgram } from '../src/scripts/supervisor-program.ts'
import { openOverSsh, uploadOverSsh } from '../src/ssh/files.ts'
import { appendOverSsh, uploadStep } from '../src/ssh/uploads.ts'
import { type ConnectedShells, callsOver, connectToShells } from '../src/testing/ssh-server.ts'

const top = mkdtempSync(join(tmpdir(), 'files-'))
chmodSync(top, 0o755)
const program = join(top, 'program')
const isRoot = process.getuid!() === 0
let guest: ConnectedShells
beforeAll(async () => {
  writeFileSync(program, supervisorProgram, { mode: 0o755 })
  guest = await connectToShells()
})
afterAll(() => {
  guest.close()
  rmSync(top, { recursive: true })
})

interface More {
  mode?: number | null
  owner?: string | null
}

const begin = (path: string, { mode = null, owner = null }: More = {}) =>
  uploadOverSsh(guest.connection, path, mode, owner)

async function write(path: string, bytes: string, more: More = {}): Promise<void> {
  const upload = await begin(path, more)
  await upload.write(Buffer.from(bytes))
  expect(await upload.commit()).toBe(bytes.length)
}

const codeOf = (asked: Promise<unknown>) =>
  asked.then(
    () => 'done',
    (error) => (error instanceof Refusal ? error.code : String(error)),
  )
/** A writer in a process of its own: what a shell starts, without a host. */
const writer = (path: string) => {
  const child = spawn(program, ['stream', 'n', 'file.write', path, '', ''], { stdio: ['pipe', 'pipe', 'pipe'] })
  child.stdin.on('error', () => undefined)
  return child
}
/** Bytes as the program takes them. */
const framed = (bytes: Buffer) => {
  const length = Buffer.alloc(4)
  length.writeUInt32LE(bytes.length)
  return Buffer.concat([length, bytes])
}
const hasTemporary = (folder: string) => waitFor('a temporary file', async () => all(folder).length === 1)

const ownerOf = (path: string) => `${statSync(path).uid}:${statSync(path).gid}`
const modeOf = (path: string) => (statSync(path).mode & 0o7777).toString(8)
const all = (folder: string) => readdirSync(folder, { recursive: true }).map(String)

describe.runIf(isRoot)('as root', () => {
  test('a new file and its new folders belong to the owner of the folder that they are put in, or to whom was named', async () => {
    const home = join(top, 'home')
    mkdirSync(home)
    chownSync(home, 1234, 2345)
    await write(join(home, 'a/b/c'), 'x')
    for (const name of ['a', 'a/b', 'a/b/c']) expect([name, ownerOf(join(home, name))]).toEqual([name, '1234:2345'])
    await write(join(home, 'other/d'), 'x', { owner: '4000:5000' })
    for (const name of ['other', 'other/d']) expect(ownerOf(join(home, name))).toBe('4000:5000')
    await write(join(home, 'alone'), 'x', { owner: '4001' })
    expect(ownerOf(join(home, 'alone'))).toBe('4001:4001')
    await write(join(home, 'named'), 'x', { owner: 'nobody' })
    expect(statSync(join(home, 'named')).uid).toBe(65_534)
    for (const owner of ['no-such-user', 'nobody:no-such-group'])
      expect(await codeOf(begin(join(home, 'none/x'), { owner }))).toBe('invalid_request')
    expect(existsSync(join(home, 'none'))).toBe(false)
    expect(ownerOf(home)).toBe('1234:2345')
  })

  test('a replaced file keeps its owner and its mode, but not what lends them to others', async () => {
    const path = join(top, 'kept')
    writeFileSync(path, 'old')
    chownSync(path, 1234, 1234)
    chmodSync(path, 0o6751)
    await write(path, 'new')
    expect([ownerOf(path), modeOf(path), readFileSync(path, 'utf8')]).toEqual(['1234:1234', '751', 'new'])
    await write(path, 'new', { owner: '99:98', mode: 0o600 })
    expect([ownerOf(path), modeOf(path)]).toEqual(['99:98', '600'])
  })

  test('an upload belongs to the owner of its folder, or to whom was named', async () => {
    const home = join(top, 'uploads')
    mkdirSync(home)
    chownSync(home, 1234, 2345)
    const put = async (name: string, owner: string | null) => {
      await step('prepare', join(home, name), { owner })
      expect(await step('place', join(home, name), { owner, size: 0 })).toEqual({ size: null, placed: 'now' })
      return ownerOf(join(home, name))
    }
    expect([await put('in/a', null), ownerOf(join(home, 'in')), modeOf(join(home, 'in/a'))]).toEqual([
      '1234:2345',
      '1234:2345',
      '644',
    ])
    expect(await put('b', '7:8')).toBe('7:8')
    expect(all(home).sort()).toEqual(['b', 'in', 'in/a'])
  })
})

test('what is given up, or does not fit, leaves nothing', async () => {
  const folder = join(top, 'left')
  const upload = await begin(join(folder, 'x'))
  expect(all(folder)).toHaveLength(1)
  await upload.abandon()
  expect(all(folder)).toEqual([])
  const limited = await connectToShells({ greeting: 'ulimit -f 1; ' })
  const large = await uploadOverSsh(limited.connection, join(folder, 'y'), null)
  const writing = async () => {
    for (;;) await large.write(Buffer.alloc(100_000))
  }
  expect(await codeOf(writing())).toBe('file_too_large')
  expect(all(folder)).toEqual([])
  limited.close()
})

test('a folder that is renamed or removed during a write is no success, and keeps no unfinished file', async () => {
  const [folder, elsewhere] = [join(top, 'moving'), join(top, 'moved')]
  const first = await begin(join(folder, 'x'))
  renameSync(folder, elsewhere)
  await first.write(Buffer.from('x'))
  expect(await codeOf(first.commit())).toBe('file_not_found')
  expect(all(elsewhere)).toEqual([])
  const second = await begin(join(folder, 'x'))
  rmSync(folder, { recursive: true })
  await second.write(Buffer.from('x'))
  expect(await codeOf(second.commit())).toBe('conflict')
  expect(existsSync(folder)).toBe(false)
  const third = await begin(join(folder, 'x'))
  renameSync(folder, `${elsewhere}-2`)
  mkdirSync(folder)
  expect(await codeOf(third.commit())).toBe('conflict')
  expect([all(folder), all(`${elsewhere}-2`)]).toEqual([[], []])
})

test('a link stays and its target is written, a new one too; what is no file, or a loop, is refused', async () => {
  const folder = join(top, 'links')
  mkdirSync(join(folder, 'dir'), { recursive: true })
  const at = (name: string) => join(folder, name)
  symlinkSync('dir/real', at('link'))
  symlinkSync('loop', at('loop'))
  execFileSync('mkfifo', [at('fifo')])
  await write(at('link'), 'through')
  await write(at('link'), 'again')
  expect(readFileSync(at('dir/real'), 'utf8')).toBe('again')
  const cases: [name: string, write: string, read: string][] = [
    ['dir', 'is_directory', 'is_directory'],
    ['loop', 'symlink_loop', 'symlink_loop'],
    ['loop/below', 'symlink_loop', 'symlink_loop'],
    ['fifo', 'not_regular', 'not_regular'],
    ['dir/real/below', 'not_directory', 'file_not_found'],
    ['none', 'done', 'done'],
    ['x'.repeat(256), 'invalid_request', 'invalid_request'],
    ['deep/'.repeat(900), 'invalid_request', 'invalid_request'],
  ]
  for (const [name, put, get] of cases) {
    expect([name, await codeOf(write(at(name), 'x'))]).toEqual([name, put])
    expect([name, await codeOf(openOverSsh(guest.connection, at(name), wholeFile))]).toEqual([name, get])
  }
  expect(await codeOf(openOverSsh(guest.connection, at('absent'), wholeFile))).toBe('file_not_found')
  expect(all(folder).filter((name) => name.includes('.dormouse-'))).toEqual([])
})

test('input that ends, at whatever byte, or that is no piece, places nothing and leaves nothing', async () => {
  const folder = join(top, 'cut')
  mkdirSync(folder)
  const whole = Buffer.concat([framed(Buffer.from('first')), framed(randomBytes(300_000)), framed(Buffer.alloc(0))])
  const inputs = [0, 1, 3, 4, 8, 9, 12, 200_000, whole.length - 4, whole.length - 1].map((n) => whole.subarray(0, n))
  for (let n = 0; n < 40; n++) inputs.push(Buffer.concat([Buffer.from([255, n, 0]), randomBytes(n * 10)]))
  for (const input of inputs) {
    const child = writer(join(folder, 'x'))
    child.stdin.end(input)
    const [code] = await once(child, 'close')
    expect([input.length, code, all(folder)]).toEqual([input.length, 97, []])
  }
  const child = writer(join(folder, 'x'))
  child.stdin.end(whole)
  expect(await text(child.stdout)).toMatch(/^dormouse-n began \d+\nready\nplaced 300005\n$/)
  expect(statSync(join(folder, 'x')).size).toBe(300_005)
})

test.runIf(isRoot)('what a killed writer or an earlier boot has left is swept, and nothing else', async () => {
  const folder = join(top, 'swept')
  mkdirSync(folder)
  const killed = writer(join(folder, 'x'))
  await hasTemporary(folder)
  killed.kill('SIGKILL')
  await once(killed, 'close')
  const busy = await begin(join(top, 'busy/x'))
  const ledger = '/var/lib/dormouse/unfinished'
  const [old, own, kept] = ['.dormouse-old', '.dormouse-own', 'kept'].map((name) => join(folder, name)) as [
    ...[string, string, string],
  ]
  for (const path of [old, own]) mkdirSync(join(path, 'deep'), { recursive: true })
  writeFileSync(kept, '')
  const bootId = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
  const notes = { 'another-boot-1': old, 'another-boot-2': kept, 'another-boot-3': '', [`${bootId}-test`]: own }
  for (const [name, path] of Object.entries(notes)) writeFileSync(join(ledger, name), path)
  await once(spawn(program, ['stream', '-', 'sweep'], { stdio: 'ignore' }), 'close')
  expect(all(folder).sort()).toEqual(['.dormouse-own', '.dormouse-own/deep', 'kept'])
  expect(Object.keys(notes).filter((name) => existsSync(join(ledger, name)))).toEqual([`${bootId}-test`])
  rmSync(join(ledger, `${bootId}-test`))
  await busy.write(Buffer.from('busy'))
  expect(await busy.commit()).toBe(4)
})

test('a file comes out whole or in part, also one that the kernel makes, and its version changes with it', async () => {
  const path = join(top, 'read')
  const bytes = randomBytes(3 * 1024 * 1024)
  writeFileSync(path, bytes)
  const read = async (of: string, choose = wholeFile) => {
    const { head, read, close } = await openOverSsh(guest.connection, of, choose)
    const parts: Buffer[] = []
    for (let part = await read(); part; part = await read()) parts.push(part)
    await close()
    return { head, bytes: Buffer.concat(parts) }
  }
  const first = await read(path)
  expect([first.head.size, first.bytes.equals(bytes)]).toEqual([bytes.length, true])
  const part = await read(path, () => ({ first: 1_000_001, length: 1_500_000 }))
  expect(part.bytes.equals(bytes.subarray(1_000_001, 2_500_001))).toBe(true)
  expect((await read(path, () => null)).bytes).toHaveLength(0)
  writeFileSync(path, bytes.subarray(0, 1_000))
  const second = await read(path, () => ({ first: 10, length: 20 }))
  expect([second.bytes.equals(bytes.subarray(10, 30)), second.head.version === first.head.version]).toEqual([
    true,
    false,
  ])
  expect((await read('/proc/version')).bytes.toString()).toMatch(/^Linux version/)
})

const uploadId = '019a9f00-0000-7000-8000-000000000001'
const step = (name: UploadCommand['step'], path: string, more: More & { size?: number } = {}) => {
  const given = { mode: null, owner: null, size: null, ...more }
  return uploadStep(callsOver(guest.connection), { ...given, step: name, path, uploadId } as UploadCommand)
}

test('an upload gathers beside its target, goes on at its end alone, and is placed once', async () => {
  const path = join(top, 'gathered/file')
  const append = async (offset: number, bytes: string) => {
    const appending = await appendOverSsh(guest.connection, { path, uploadId }, offset)
    await appending.write(Buffer.from(bytes))
    await appending.finish()
  }
  expect(await step('measure', path)).toEqual({ size: null, placed: null })
  expect(await codeOf(append(0, 'x'))).toBe('upload_lost')
  expect(await step('prepare', path)).toEqual({ size: 0, placed: null })
  await append(0, 'first ')
  expect(await step('prepare', path)).toEqual({ size: 6, placed: null })
  for (const offset of [0, 5, 7]) expect(await codeOf(append(offset, 'x'))).toBe('upload_offset')
  await append(6, 'second')
  expect(await step('place', path, { size: 11 })).toEqual({ size: 12, placed: null })
  expect(existsSync(path)).toBe(false)
  expect(await step('place', path, { size: 12, mode: 0o4750 })).toEqual({ size: null, placed: 'now' })
  expect([readFileSync(path, 'utf8'), modeOf(path)]).toEqual(['first second', '4750'])
  expect(await step('place', path, { size: 12 })).toEqual({ size: null, placed: 'before' })
  expect(await step('place', path, { size: 13 })).toEqual({ size: null, placed: null })
  await step('prepare', path)
  for (const _ of [1, 2]) expect(await step('drop', path)).toEqual({ size: null, placed: null })
  expect(await codeOf(step('prepare', join(top, 'gathered')))).toBe('is_directory')
  expect(all(join(top, 'gathered'))).toEqual(['file'])
})
