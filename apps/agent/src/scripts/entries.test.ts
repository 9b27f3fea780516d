// Guarantee: the scripts that list and change entries work in any shell, with BusyBox and with GNU, whatever a name is.
import { execFile } from 'node:child_process'
import {
  closeSync,
  existsSync,
  ftruncateSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type EntryChange, Refusal } from '@dormouse/contract'
import { afterAll, describe, expect, test } from 'vitest'
import { listScript, parseEntry, parsePage } from './entries.ts'
import { changeScript } from './entry-changes.ts'
import { printedBy } from './file-failures.ts'

const nonce = 'abcdef0123456789'
const top = mkdtempSync(join(tmpdir(), 'entries-'))
afterAll(() => rmSync(top, { recursive: true }))

/** BusyBox with its own tools first, as in the mini image. */
function busyBox(): string | undefined {
  if (!existsSync('/usr/bin/busybox')) return undefined
  const bin = join(top, 'bin')
  mkdirSync(bin)
  for (const tool of 'find sort xargs stat head sleep sh mkdir mv cp rm rmdir chmod chown ls readlink cat dd id touch tr truncate wc'.split(
    ' ',
  ))
    symlinkSync('/usr/bin/busybox', join(bin, tool))
  return bin
}
const busyBoxDir = busyBox()
const kinds = [['GNU', '/usr/bin:/bin'] as const, ...(busyBoxDir ? [['BusyBox', busyBoxDir] as const] : [])]

describe.each(kinds)('with %s', (kind, path) => {
  const dir = join(top, kind)
  mkdirSync(dir)
  const shell = path === busyBoxDir ? join(path, 'sh') : '/bin/sh'

  function run(script: string): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      execFile(shell, ['-c', script], { env: { PATH: path }, encoding: 'buffer' }, (error, stdout, stderr) => {
        const exitCode = typeof error?.code === 'number' ? error.code : 0
        try {
          resolve(printedBy({ exitCode, stdout, stderr }))
        } catch (refusal) {
          reject(refusal)
        }
      })
    })
  }

  async function list(folder: string, depth = 1, limit = 100, after: string | null = null) {
    const request = { path: folder, depth, after, limit }
    return parsePage(await run(listScript(request, nonce)), request, nonce)
  }

  async function change(given: EntryChange) {
    const printed = await run(changeScript(given, nonce, 20))
    return given.action === 'remove' ? null : parseEntry(printed, nonce)
  }

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
})
