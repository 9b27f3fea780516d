// Guarantee: the scripts that pack and unpack folders work with the tar of GNU and of BusyBox. What is unpacked appears whole, belongs
// to whom it should, and leaves nothing unfinished; a failure of tar is never the end of an archive.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { abandonScript, type Place, packScript, parsePlace, placeScript, unpackScript } from './archives.ts'
import { printedBy } from './file-failures.ts'

const top = mkdtempSync(join(tmpdir(), 'archives-'))
chmodSync(top, 0o755)
afterAll(() => rmSync(top, { recursive: true }))
const isRoot = process.getuid!() === 0
let made = 0
const nonce = () => `${String(++made).padStart(24, 'b')}`

const tools =
  'tar find xargs stat head sleep sh mkdir mv rm chmod chown ls readlink cat id du grep setsid printf cut kill sort wc dd true touch'

/** BusyBox with its own tools first, as in the mini image. */
function binOf(kind: string, leftOut?: string): string {
  const bin = join(top, `bin-${kind}-${leftOut}`)
  mkdirSync(bin)
  const where = (tool: string) =>
    kind === 'BusyBox' ? '/usr/bin/busybox' : ['/usr/bin', '/bin'].map((at) => join(at, tool)).find(existsSync)!
  for (const tool of tools.split(' ').filter((tool) => tool !== leftOut)) symlinkSync(where(tool), join(bin, tool))
  return bin
}

const kinds = existsSync('/usr/bin/busybox') ? ['GNU', 'BusyBox'] : ['GNU']
const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => 'done',
    (error) => error.code ?? String(error),
  )
const all = (folder: string) => readdirSync(folder, { recursive: true }).map(String).sort()
const modeOf = (path: string) => (lstatSync(path).mode & 0o7777).toString(8)

describe.each(kinds)('with %s', (kind) => {
  const bin = binOf(kind)
  const dir = join(top, kind)
  mkdirSync(dir)

  function start(script: string, path = bin): ChildProcess {
    return spawn(join(path, 'sh'), ['-c', script], { env: { PATH: path }, stdio: ['pipe', 'pipe', 'pipe'] })
  }

  async function run(script: string, { input, path }: { input?: Uint8Array; path?: string } = {}): Promise<Buffer> {
    const child = start(script, path)
    child.stdin!.on('error', () => undefined).end(input)
    const printed = Promise.all([child.stdout!.toArray(), child.stderr!.toArray()])
    const [exitCode] = (await once(child, 'close')) as [number]
    const [stdout, stderr] = (await printed).map((parts) => Buffer.concat(parts)) as [Buffer, Buffer]
    return printedBy({ exitCode, stdout, stderr })
  }

  /** An archive without the newline before it. */
  const pack = async (folder: string, path?: string) => (await run(packScript(folder), { path })).subarray(1)

  /** Unpacks, and stays before it is placed. */
  async function unpack(path: string, archive: Uint8Array, owner: string | null = null): Promise<Place> {
    return parsePlace(await run(unpackScript({ path, owner }, nonce()), { input: archive }))!
  }

  const write = async (path: string, archive: Uint8Array, owner: string | null = null) =>
    run(placeScript(await unpack(path, archive, owner), owner))

  /** A folder with all that one may have. */
  function folder(name: string): string {
    const at = join(dir, name)
    mkdirSync(join(at, 'deep/er [x]'), { recursive: true })
    mkdirSync(join(at, 'empty'), { mode: 0o750 })
    writeFileSync(join(at, 'plain'), 'plain', { mode: 0o640 })
    writeFileSync(join(at, 'deep/er [x]/two\nlines'), 'deep', { mode: 0o755 })
    writeFileSync(join(at, '.hidden'), '')
    writeFileSync(join(at, '-rf'), 'option')
    writeFileSync(join(at, 'deep', 'x'.repeat(200)), Buffer.alloc(100_000, 7))
    symlinkSync('plain', join(at, 'link'))
    return at
  }

  test('a folder comes out and goes in with all that is in it, and its modes', async () => {
    const from = folder('whole')
    const archive = await pack(from)
    const to = join(dir, 'new/parents/to')
    await write(to, archive)
    expect(all(to)).toEqual(all(from))
    for (const name of ['plain', 'deep/er [x]/two\nlines', `deep/${'x'.repeat(200)}`, '-rf'])
      expect(readFileSync(join(to, name)).equals(readFileSync(join(from, name)))).toBe(true)
    for (const name of ['plain', 'empty', 'deep/er [x]/two\nlines'])
      expect(modeOf(join(to, name))).toBe(modeOf(join(from, name)))
    expect(readlinkSync(join(to, 'link'))).toBe('plain')
    expect(all(dir).filter((name) => name.includes('.dormouse-'))).toEqual([])
  })

  test('nothing is in its place before the archive has come, and nothing stays of one that is given up', async () => {
    const archive = await pack(folder('early'))
    const to = join(dir, 'late/to')
    const place = await unpack(to, archive)
    expect(existsSync(to)).toBe(false)
    await run(abandonScript(place))
    expect(existsSync(join(dir, 'late'))).toBe(false)
    expect(all(dir).filter((name) => name.includes('.dormouse-'))).toEqual([])
    expect(await codeOf(run(placeScript(place, null)))).toBe('conflict')
  })

  test('what is in the folder already stays, is replaced whole, and is never removed', async () => {
    const archive = await pack(folder('over'))
    const to = join(dir, 'merged')
    mkdirSync(join(to, 'deep'), { recursive: true, mode: 0o711 })
    writeFileSync(join(to, 'deep/kept'), 'kept')
    writeFileSync(join(to, 'elsewhere'), 'old')
    symlinkSync('elsewhere', join(to, 'plain'))
    writeFileSync(join(to, '-rf'), 'old')
    await write(to, archive)
    expect(all(to)).toEqual([...all(join(dir, 'over')), 'deep/kept', 'elsewhere'].sort())
    expect([readlinkSync(join(to, 'plain')), readFileSync(join(to, 'elsewhere'), 'utf8')]).toEqual([
      'elsewhere',
      'plain',
    ])
    expect([readFileSync(join(to, 'deep/kept'), 'utf8'), readFileSync(join(to, '-rf'), 'utf8'), modeOf(to)]).toEqual([
      'kept',
      'option',
      '711',
    ])
  })

  test('a file where the folder, or one in it, is to be, and a folder where a file is to be, are refused by name', async () => {
    const archive = await pack(folder('clash'))
    const to = join(dir, 'clashes')
    mkdirSync(join(to, 'a/plain'), { recursive: true })
    mkdirSync(join(to, 'b'))
    writeFileSync(join(to, 'b/deep'), 'file')
    expect(await codeOf(write(join(to, 'a'), archive))).toBe('is_directory')
    expect(await codeOf(write(join(to, 'b'), archive))).toBe('not_directory')
    expect(await codeOf(write(join(to, 'b/deep'), archive))).toBe('not_directory')
    expect(await codeOf(write(join(to, 'b/deep/below'), archive))).toBe('not_directory')
    expect(readFileSync(join(to, 'b/deep'), 'utf8')).toBe('file')
    expect(all(to).filter((name) => name.includes('.dormouse-'))).toEqual([])
  })

  test('what is no archive, or ends early, is refused and leaves nothing', async () => {
    const archive = await pack(folder('bad'))
    const to = join(dir, 'refused')
    mkdirSync(to)
    const texts = [Buffer.from('x'.repeat(5_000)), archive.subarray(0, 50_000)]
    for (const bytes of texts) expect(await codeOf(write(join(to, 'x'), bytes))).toBe('invalid_request')
    expect(all(to)).toEqual([])
  })

  test('a folder that is none, and a guest without tar, are refused by name', async () => {
    const at = folder('named')
    expect(await codeOf(pack(join(at, 'none')))).toBe('file_not_found')
    expect(await codeOf(pack(join(at, 'plain')))).toBe('not_directory')
    // BusyBox's shell has its own tar always.
    if (kind === 'BusyBox') return
    const without = binOf(kind, 'tar')
    expect(await codeOf(pack(at, without))).toBe('archive_unsupported')
    expect(await codeOf(run(unpackScript({ path: join(at, 'x'), owner: null }, nonce()), { path: without }))).toBe(
      'archive_unsupported',
    )
  })

  test('a file that gets shorter while it is packed is a failure', async () => {
    const at = join(dir, 'shrinks')
    mkdirSync(at)
    writeFileSync(join(at, 'file'), '')
    truncateSync(join(at, 'file'), 64 * 1024 ** 2)
    const packing = start(packScript(at))
    packing.stdin!.end()
    let read = 0
    for await (const bytes of packing.stdout!.iterator({ destroyOnReturn: false })) {
      read += bytes.length
      if (read > 1024 ** 2) break
    }
    truncateSync(join(at, 'file'), 1)
    packing.stdout!.resume()
    const [code] = await once(packing, 'close')
    expect(code).not.toBe(0)
  })

  describe.runIf(isRoot)('as root', () => {
    const ownerOf = (path: string) => `${lstatSync(path).uid}:${lstatSync(path).gid}`

    test('what is new belongs to the owner of its folder or to whom was named, and what is replaced keeps its own', async () => {
      const archive = await pack(folder('owned'))
      const home = join(dir, 'home')
      mkdirSync(join(home, 'deep'), { recursive: true })
      writeFileSync(join(home, '-rf'), 'of somebody else')
      chownSync(home, 1234, 2345)
      chownSync(join(home, '-rf'), 77, 78)
      chownSync(join(home, 'deep'), 99, 98)
      await write(join(home, 'in/side'), archive)
      for (const name of ['in', 'in/side', 'in/side/deep/er [x]/two\nlines', 'in/side/link'])
        expect([name, ownerOf(join(home, name))]).toEqual([name, '1234:2345'])
      await write(home, archive)
      const owners = ['plain', 'empty', '-rf', 'deep', 'deep/er [x]', 'link'].map((name) => ownerOf(join(home, name)))
      expect(owners).toEqual(['1234:2345', '1234:2345', '77:78', '99:98', '99:98', '1234:2345'])
      await write(home, archive, '5:6')
      expect(['plain', '-rf', 'deep/er [x]/two\nlines'].map((name) => ownerOf(join(home, name)))).toEqual([
        '5:6',
        '5:6',
        '5:6',
      ])
      await write(join(home, 'named'), archive, 'nobody')
      expect(statSync(join(home, 'named/plain')).uid).toBe(65_534)
      expect(await codeOf(write(join(home, 'none'), archive, 'no-such-user'))).toBe('invalid_request')
      expect(existsSync(join(home, 'none'))).toBe(false)
    })

    test('a full disk and a read-only one are refused by name, and nothing stays', async () => {
      const archive = await pack(folder('big'))
      const mount = join(dir, 'mount')
      mkdirSync(mount)
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', mount])
      try {
        expect(await codeOf(write(join(mount, 'x'), archive))).toBe('no_space')
        expect(all(mount)).toEqual([])
        execFileSync('mount', ['-o', 'remount,ro', mount])
        expect(await codeOf(write(join(mount, 'x'), archive))).toBe('read_only')
      } finally {
        execFileSync('umount', [mount])
      }
    })
  })
})
