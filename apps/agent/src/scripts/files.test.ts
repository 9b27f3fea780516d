// Guarantee: a written file and its new folders belong to whom they should, and nothing unfinished stays, in any shell.
import { type ChildProcess, execFile, spawn } from 'node:child_process'
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
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { printedBy } from './file-failures.ts'
import { abandonScript, commitScript, createScript, type NewFile, type Place, parsePlace, writeInput } from './files.ts'
import { uploadScript } from './uploads.ts'

const top = mkdtempSync(join(tmpdir(), 'files-'))
chmodSync(top, 0o755)
afterAll(() => rmSync(top, { recursive: true }))
const isRoot = process.getuid!() === 0
let made = 0
const nonce = () => `${String(++made).padStart(24, 'a')}`

function run(script: string): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    execFile('/bin/sh', ['-c', script], { encoding: 'buffer' }, (error, stdout, stderr) => {
      try {
        resolve(printedBy({ exitCode: typeof error?.code === 'number' ? error.code : 0, stdout, stderr }))
      } catch (refusal) {
        reject(refusal)
      }
    })
  })
}

async function begin(file: Omit<NewFile, 'mode'>): Promise<{ place: Place; writer: ChildProcess }> {
  const writer = spawn('/bin/sh', ['-c', createScript(file, nonce(), writeInput)], {
    stdio: ['pipe', 'pipe', 'ignore'],
  })
  let printed = Buffer.alloc(0)
  for (;;) {
    const [bytes] = (await once(writer.stdout!, 'data')) as [Buffer]
    printed = Buffer.concat([printed, bytes])
    const place = parsePlace(printed)
    if (place) return { place, writer }
  }
}

async function write(path: string, text: string, more: Partial<NewFile> = {}): Promise<void> {
  const { place, writer } = await begin({ path, ...more })
  writer.stdin!.end(text)
  await once(writer, 'close')
  await run(commitScript(place, text.length, { mode: null, ...more }))
}

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
    const unknown = createScript({ path: join(home, 'none/x'), owner: 'no-such-user' }, nonce(), writeInput)
    await expect(run(unknown)).rejects.toMatchObject({ code: 'invalid_request' })
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
      const target = { path: join(home, name), uploadId: '019a9f00-0000-7000-8000-000000000001', owner }
      await run(uploadScript({ ...target, step: 'prepare', size: null, mode: null }))
      await run(uploadScript({ ...target, step: 'place', size: 0, mode: null }))
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
  const { place, writer } = await begin({ path: join(folder, 'x') })
  expect(all(folder)).toHaveLength(1)
  await run(abandonScript(place))
  writer.stdin!.end()
  expect(all(folder)).toEqual([])
  const limited = `ulimit -f 1; trap '' XFSZ; ${createScript({ path: join(folder, 'y') }, nonce(), writeInput)}`
  const cut = spawn('/bin/sh', ['-c', limited], { stdio: ['pipe', 'ignore', 'pipe'] })
  cut.stdin!.on('error', () => undefined).end(Buffer.alloc(100_000))
  const errors = cut.stderr!.toArray()
  const [code] = await once(cut, 'close')
  expect([code === 0, all(folder)]).toEqual([false, []])
  expect(Buffer.concat(await errors).toString()).toContain('File too large')
})

test('a folder that is renamed or removed during a write is no success, and keeps no unfinished file', async () => {
  const [folder, elsewhere] = [join(top, 'moving'), join(top, 'moved')]
  const first = await begin({ path: join(folder, 'x') })
  renameSync(folder, elsewhere)
  first.writer.stdin!.end('x')
  await once(first.writer, 'close')
  await expect(run(commitScript(first.place, 1, { mode: null }))).rejects.toMatchObject({ code: 'file_not_found' })
  expect(all(elsewhere)).toEqual([])
  const second = await begin({ path: join(folder, 'x') })
  rmSync(folder, { recursive: true })
  second.writer.stdin!.end('x')
  await once(second.writer, 'close')
  await expect(run(commitScript(second.place, 1, { mode: null }))).rejects.toMatchObject({ code: 'conflict' })
  expect(existsSync(folder)).toBe(false)
})
