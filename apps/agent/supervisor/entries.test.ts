// Guarantee: entries are listed in their order, page by page, and changed as requested, whatever a name is, and nothing else is touched.
// The real program runs here, on this machine, as in a guest.
import { spawn, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  chmodSync,
  closeSync,
  existsSync,
  ftruncateSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { type EntryChange, Refusal } from '@dormouse/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { waitFor } from '../../../test/wait-for.ts'
import { parsePage } from '../src/scripts/entries.ts'
import { supervisorProgram } from '../src/scripts/supervisor-program.ts'
import { changeEntry, listEntries } from '../src/ssh/entries.ts'
import { type ConnectedShells, callsOver, connectToShells } from '../src/testing/ssh-server.ts'

const dir = mkdtempSync(join(tmpdir(), 'entries-'))
const program = join(dir, 'program')
let guest: ConnectedShells
beforeAll(async () => {
  writeFileSync(program, supervisorProgram, { mode: 0o755 })
  guest = await connectToShells()
})
afterAll(() => {
  guest.close()
  rmSync(dir, { recursive: true })
})

const list = (folder: string, depth = 1, limit = 100, after: string | null = null) =>
  listEntries(callsOver(guest.connection), { path: folder, depth, after, limit })
const change = (given: EntryChange) => changeEntry(callsOver(guest.connection), given, 20)

const codeOf = (asked: Promise<unknown>) =>
  asked.then(
    () => 'done',
    (error) => (error instanceof Refusal ? error.code : String(error)),
  )

const names = ['a b', `"q" 'q'`, 'two\nlines\n', 'Grüße 🐹', '-rf', '$(id)', 'back\\slash', '[*]?', `x${"' -> '"}y`]

test('every name and link comes out as it is, in byte order, page by page', async () => {
  const folder = join(dir, 'names')
  mkdirSync(folder)
  for (const name of names) writeFileSync(join(folder, name), name)
  symlinkSync(`to 'x' -> \n`, join(folder, `link 'l' -> `))
  writeFileSync(Buffer.concat([Buffer.from(`${folder}/`), Buffer.from([0x7a, 0xff])]), '')
  const whole = await list(folder)
  expect(whole.next).toBeNull()
  const sorted = [...names, `link 'l' -> `].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
  const exact = whole.entries.filter((entry) => entry.exact)
  expect(exact.map((entry) => entry.path)).toEqual(sorted.map((name) => `${folder}/${name}`))
  expect(whole.entries.filter((entry) => !entry.exact).map((entry) => entry.path)).toEqual([`${folder}/z\ufffd`])
  expect(whole.entries.find(({ type }) => type === 'link')?.target).toBe(`to 'x' -> \n`)
  expect(whole.entries.find((entry) => entry.path.endsWith('/-rf'))).toMatchObject({ type: 'file', size: 3 })
  const paged = []
  for (let after: string | null = null; ; ) {
    const page = await list(folder, 1, 3, after)
    paged.push(...page.entries)
    after = page.next
    if (after === null) break
  }
  expect(paged).toEqual(whole.entries)
})

test('a depth reaches so far, and depth 0 is the entry itself', async () => {
  const folder = join(dir, 'deep')
  mkdirSync(join(folder, 'a/b/c'), { recursive: true })
  symlinkSync('deep', join(dir, 'to-deep'))
  const paths = async (depth: number) => (await list(join(dir, 'to-deep'), depth)).entries.map(({ path }) => path)
  expect(await paths(2)).toEqual([join(dir, 'to-deep/a'), join(dir, 'to-deep/a/b')])
  expect((await list(join(dir, 'to-deep'), 0)).entries).toMatchObject([{ type: 'link', target: 'deep' }])
  const [entry] = (await list(folder, 0)).entries
  expect(entry).toMatchObject({ path: folder, type: 'directory', mode: 0o755, uid: process.getuid!() })
  expect(Math.abs(entry!.modifiedMs - Date.now())).toBeLessThan(600_000)
  expect((await list('/', 1)).entries.map(({ path }) => path)).toContain('/tmp')
  writeFileSync(join(dir, 'plain'), '')
  expect(await codeOf(list(join(dir, 'none')))).toBe('file_not_found')
  expect(await codeOf(list(join(dir, 'none'), 0))).toBe('file_not_found')
  expect(await codeOf(list(join(dir, 'plain')))).toBe('not_directory')
})

test('a copy has the holes of its original, alone and in a folder', async () => {
  const folder = join(dir, 'holes')
  mkdirSync(folder)
  const data = Buffer.alloc(300_000, 'x')
  const file = openSync(join(folder, 'sparse'), 'w', 0o640)
  for (const at of [0, 9_000_001, 40_000_000]) writeSync(file, data, 0, data.length, at)
  ftruncateSync(file, 64 * 1024 * 1024 + 1)
  closeSync(file)
  writeFileSync(join(folder, 'plain'), data)
  const copies = [join(dir, 'alone'), join(dir, 'with/sparse')]
  await change({ action: 'copy', path: join(folder, 'sparse'), to: copies[0]!, overwrite: false, recursive: false })
  await change({ action: 'copy', path: folder, to: join(dir, 'with'), overwrite: false, recursive: true })
  const whole = readFileSync(join(folder, 'sparse'))
  for (const copy of copies) {
    const { blocks, mode } = statSync(copy)
    expect([copy, blocks * 512 < 4_000_000, mode & 0o777, readFileSync(copy).equals(whole)]).toEqual([
      copy,
      true,
      0o640,
      true,
    ])
  }
  expect(readFileSync(join(dir, 'with/plain')).equals(data)).toBe(true)
  rmSync(folder, { recursive: true })
})

test('entries are made, moved, copied, changed and removed, and nothing else is touched', async () => {
  const at = (name: string) => join(dir, 'change', name)
  const make = (name: string, parents = true) =>
    change({ action: 'mkdir', path: at(name), parents, mode: null, owner: null })
  const put = (action: 'move' | 'copy', path: string, to: string, overwrite = false, recursive = false) =>
    change({ action, path: at(path), to: at(to), overwrite, recursive })
  const remove = (name: string, recursive = false) => change({ action: 'remove', path: at(name), recursive })
  expect(await make('a/b\n')).toMatchObject({ path: at('a/b\n'), type: 'directory' })
  expect(await codeOf(make('a/b\n'))).toBe('done')
  expect(await codeOf(make('a', false))).toBe('file_exists')
  expect(await codeOf(make('x/y', false))).toBe('file_not_found')
  writeFileSync(at('a/f'), 'one', { mode: 0o750 })
  writeFileSync(at('g'), 'two')
  symlinkSync('nowhere', at('a/l'))
  expect(await codeOf(make('g/h'))).toBe('not_directory')
  expect(await codeOf(put('move', 'a/f', 'g'))).toBe('file_exists')
  expect(await codeOf(put('copy', 'a', 'c'))).toBe('is_directory')
  expect(await codeOf(put('copy', 'g', 'a', true))).toBe('is_directory')
  expect(await codeOf(put('copy', 'a', 'a/b\n/c', false, true))).toBe('invalid_request')
  expect(await put('copy', 'a', 'n/c', false, true)).toMatchObject({ path: at('n/c'), type: 'directory' })
  expect((await list(at('n/c'))).entries.map(({ path, mode }) => [path, mode])).toEqual([
    [at('n/c/b\n'), 0o755],
    [at('n/c/f'), 0o750],
    [at('n/c/l'), 0o777],
  ])
  expect(await put('move', 'a/f', 'g', true)).toMatchObject({ path: at('g'), mode: 0o750, size: 3 })
  expect(readFileSync(at('g'), 'utf8')).toBe('one')
  expect(await change({ action: 'chmod', path: at('n'), recursive: false, mode: 0o1700 })).toMatchObject({
    mode: 0o1700,
  })
  expect(await codeOf(remove('n'))).toBe('not_empty')
  await remove('n', true)
  await remove('a/l')
  expect(await codeOf(remove('a/l'))).toBe('file_not_found')
  expect(readdirSync(at('')).sort()).toEqual(['a', 'g'])
  expect(readdirSync(at('a'))).toEqual(['b\n'])
})

test('a tree is one order of paths over all pages, and what comes before a page is not searched', async () => {
  const folder = join(dir, 'tree')
  for (const at of ['a', 'a/b', 'a.b', 'a-b/c', 'b/a/a', 'b/a.a', '~']) mkdirSync(join(folder, at), { recursive: true })
  for (let i = 0; i < 300; i++) writeFileSync(join(folder, 'b/a', `${(i * 7919) % 300}`), '')
  const below = readdirSync(folder, { recursive: true }).map((name) => join(folder, String(name)))
  const sorted = below.sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
  for (const limit of [45, 1_000]) {
    const paths: string[] = []
    for (let after: string | null = null; ; ) {
      const page = await list(folder, 32, limit, after)
      paths.push(...page.entries.map(({ path }) => path))
      after = page.next
      if (after === null || paths.length > sorted.length) break
    }
    expect(paths).toEqual(sorted.slice(0, paths.length))
    expect(paths).toHaveLength(sorted.length)
  }
  const beyond = Buffer.from('zz\0b').toString('base64url')
  expect((await list(folder, 2, 100, beyond)).entries.map(({ path }) => path)).toEqual([join(folder, '~')])
})

test('a copy has names, links, modes and times of its original, and a failed one leaves nothing', async () => {
  const [from, to] = [join(dir, 'original'), join(dir, 'copies/copy')]
  mkdirSync(join(from, 'deep/er'), { recursive: true })
  writeFileSync(join(from, 'one'), 'same', { mode: 0o600 })
  linkSync(join(from, 'one'), join(from, 'deep/two'))
  symlinkSync('nowhere', join(from, 'link'))
  spawnSync('mkfifo', [join(from, 'deep/fifo')])
  utimesSync(join(from, 'one'), 1_000_000, 2_000_000.5)
  utimesSync(join(from, 'deep'), 1_000_000, 3_000_000)
  chmodSync(join(from, 'deep/er'), 0o3711)
  await change({ action: 'copy', path: from, to, overwrite: false, recursive: true })
  const facts = (top: string) =>
    readdirSync(top, { recursive: true })
      .map(String)
      .sort()
      .map((name) => {
        const { mode, size, mtimeMs, nlink, uid, gid } = lstatSync(join(top, name))
        return { name, mode, size, mtimeMs, nlink, uid, gid }
      })
  expect(facts(to)).toEqual(facts(from))
  expect(statSync(join(to, 'one')).ino).toBe(statSync(join(to, 'deep/two')).ino)
  const limited = await connectToShells({ greeting: 'ulimit -f 8; ' })
  writeFileSync(join(from, 'large'), randomBytes(100_000))
  const copying = {
    action: 'copy',
    path: from,
    to: join(dir, 'copies/cut'),
    overwrite: false,
    recursive: true,
  } as const
  expect(await codeOf(changeEntry(callsOver(limited.connection), copying, 20))).toBe('file_too_large')
  expect(readdirSync(join(dir, 'copies'))).toEqual(['copy'])
  limited.close()
})

test('modes change below a folder, and a link in it leads nowhere else; a tree with a thousand levels goes', async () => {
  const folder = join(dir, 'modes')
  mkdirSync(join(folder, 'in'), { recursive: true })
  writeFileSync(join(dir, 'outside'), '', { mode: 0o644 })
  symlinkSync('../outside', join(folder, 'link'))
  writeFileSync(join(folder, 'in/file'), '')
  await change({ action: 'chmod', path: folder, recursive: true, mode: 0o700 })
  const modes = [folder, join(folder, 'in/file'), join(dir, 'outside')].map((path) => statSync(path).mode & 0o7777)
  expect(modes).toEqual([0o700, 0o700, 0o644])
  expect(await codeOf(change({ action: 'remove', path: '/', recursive: true }))).toBe('busy')
  const deep = join(folder, 'x/'.repeat(1_000))
  mkdirSync(deep, { recursive: true })
  await change({ action: 'remove', path: folder, recursive: true })
  expect(existsSync(folder)).toBe(false)
  expect(existsSync(join(dir, 'outside'))).toBe(true)
})

test('a change that does not end in time is ended, and leaves nothing', async () => {
  const [from, to] = [join(dir, 'large'), join(dir, 'ended')]
  mkdirSync(from)
  for (const name of ['a', 'b', 'c', 'd']) writeFileSync(join(from, name), Buffer.alloc(32 * 1024 * 1024, 'x'))
  // A fast machine may be done before it is stopped.
  const ended = await waitFor('a copy that is stopped on its way', async () => {
    rmSync(to, { recursive: true, force: true })
    mkdirSync(to)
    const copying = spawn(program, [dir, 'entry.copy', '1', from, join(to, 'x'), '0', '1'])
    const said = text(copying.stdout)
    await waitFor('a copy that has begun', async () => readdirSync(to).length > 0)
    copying.kill('SIGSTOP')
    const isLate = () => /^ShdPnd:.*2...$/m.test(readFileSync(`/proc/${copying.pid}/status`, 'utf8'))
    const isStopped = !readdirSync(to).includes('x')
    if (isStopped) await waitFor('its alarm', async () => isLate())
    copying.kill('SIGCONT')
    return isStopped && [await said, readdirSync(to)]
  })
  expect(ended).toEqual(['no Timed out\n', []])
})

test('whatever words the program is given, it ends by itself, and whatever a guest says, a page of it is refused or read', async () => {
  const words = [
    '',
    '/',
    'x',
    '..',
    '-1',
    '99999999999999999999',
    `/${'x'.repeat(5_000)}`,
    join(dir, 'words'),
    '\n',
    '0',
    '1',
  ]
  const operations = ['list', 'mkdir', 'move', 'copy', 'chmod', 'none', '']
  for (let n = 0; n < 300; n++) {
    const any = (i: number) => words[(n * 7 + i * (n % 13)) % words.length]!
    // Nothing outside this test is changed.
    const path = n % 2 ? join(dir, 'words', any(3).slice(0, 200)) : 'relative'
    const more = Array.from({ length: n % 5 }, (_, i) => (i === 0 ? join(dir, 'words', 'to') : any(i)))
    const args = [dir, `entry.${operations[n % operations.length]}`, '5', path, ...more]
    const { status, signal } = spawnSync(program, args, { input: randomBytes(n), cwd: dir })
    expect([args, signal, status]).toEqual([args, null, 0])
  }
  const request = { path: '/x', depth: 1, after: null, limit: 10 }
  const line = Buffer.from('entry 33188 1 0 0 5 1 0\na')
  expect(parsePage(Buffer.concat([line, Buffer.from('end\n')]), request).entries).toHaveLength(1)
  for (let n = 0; n < 2_000; n++) {
    const said = Buffer.concat([line.subarray(0, n % 30), randomBytes(n % 40), line])
    try {
      expect(parsePage(said, request).entries.length).toBeLessThan(3)
    } catch (error) {
      expect(error).toMatchObject({ code: 'guest_unavailable' })
    }
  }
})
