import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { desktopId } from '@dormouse/client/testing/samples'
import { problem } from '@dormouse/client/testing/scripted-server'
import { expect, test } from 'vitest'
import { archiveOf } from '../testing/archives.ts'
import { door, folder, pinnedNode, refusing, run, start } from '../testing/process.ts'

const written = { path: '/srv/a b.txt', size: 5 }
const files = `/v1/desktops/${desktopId}/files`

test('a file goes in as it is, with its mode, under the name it is given or its own', async () => {
  const { dormouse, seen } = await start(() => ({ body: written }))
  const file = join(folder(), 'a b.txt')
  writeFileSync(file, 'bytes', { mode: 0o750 })
  const copied = await dormouse(['cp', file, `${desktopId}:/srv/a b.txt`])
  expect(copied).toMatchObject({ code: 0, stderr: '' })
  expect(copied.stdout).toMatch(/^\/srv\/a b\.txt {2}5 B in .* s, .* B\/s\n$/)
  await dormouse(['cp', '--mode', '0600', file, `${desktopId}:srv/`])
  expect(seen.map(({ method, path, query, body }) => [method, path, query.get('mode'), String(body)])).toEqual([
    ['PUT', `${files}/srv/a%20b.txt`, '0750', 'bytes'],
    ['PUT', `${files}/srv/a%20b.txt`, '0600', 'bytes'],
  ])
})

test('a file that is larger than one request goes in parts, and on after a cut', async () => {
  const size = 8 * 1024 * 1024 + 1
  const at = { id: desktopId, path: '/srv/big', length: size, expires_at: '2026-11-02T09:30:00.000Z' }
  let cuts = 0
  const { dormouse, seen } = await start(({ method, headers, body }) => {
    if (method === 'POST') return { status: 201, body: { ...at, complete: false, offset: 0 } }
    if (method === 'GET') return { body: { ...at, complete: false, offset: 5 } }
    if (cuts++ === 0) return 'reset'
    return { body: { ...at, complete: true, offset: Number(headers['upload-offset']) + body.length } }
  })
  const file = join(folder(), 'big')
  writeFileSync(file, Buffer.alloc(size))
  const { code, stdout } = await dormouse(['cp', file, `${desktopId}:srv/big`])
  expect([code, stdout]).toEqual([0, expect.stringContaining('/srv/big  8.0 MiB')])
  expect(seen.map(({ method, headers }) => [method, headers['upload-offset']])).toEqual([
    ['POST', undefined],
    ['PATCH', '0'],
    ['GET', undefined],
    ['PATCH', '5'],
  ])
})

test('a file comes out to a name or into a folder, and replaces what was there', async () => {
  const bytes = Uint8Array.from({ length: 256 }, (_, i) => i)
  const { dormouse } = await start(() => ({ body: bytes }))
  const here = folder()
  mkdirSync(join(here, 'into'))
  writeFileSync(join(here, 'named'), 'old')
  const named = await dormouse(['cp', '--json', `${desktopId}:/srv/app.log`, join(here, 'named')])
  expect(JSON.parse(named.stdout)).toMatchObject({ path: join(here, 'named'), size: 256 })
  await dormouse(['cp', `${desktopId}:/srv/app.log`, join(here, 'into')])
  for (const file of ['named', 'into/app.log']) expect(readFileSync(join(here, file))).toEqual(Buffer.from(bytes))
})

test('what breaks off leaves the old file and nothing else', async () => {
  const { dormouse } = await start(() => 'truncate')
  const here = folder()
  writeFileSync(join(here, 'kept'), 'old')
  const { code, stderr } = await dormouse(['cp', `${desktopId}:/srv/x`, join(here, 'kept')])
  expect([code, stderr]).toEqual([6, expect.stringContaining('was interrupted')])
  expect([readdirSync(here), readFileSync(join(here, 'kept'), 'utf8')]).toEqual([['kept'], 'old'])
})

test('a link is followed, and what is no regular file is left as it is', async () => {
  const { dormouse, seen } = await start(() => ({ body: Buffer.from('new') }))
  const here = folder()
  writeFileSync(join(here, 'target'), 'old')
  symlinkSync('target', join(here, 'link'))
  expect(await dormouse(['cp', `${desktopId}:/srv/x`, join(here, 'link')])).toMatchObject({ code: 0, stderr: '' })
  expect([readlinkSync(join(here, 'link')), readFileSync(join(here, 'target'), 'utf8')]).toEqual(['target', 'new'])
  const asked = seen.length
  symlinkSync('/dev/null', join(here, 'device'))
  for (const place of [join(here, 'device'), '-']) {
    const { code, stderr } = await dormouse(['cp', `${desktopId}:/srv/x`, place])
    expect([code, stderr]).toEqual([2, expect.stringMatching(/is not a (regular )?file/)])
  }
  expect(seen).toHaveLength(asked)
})

test('a disk here that takes no more is told, whatever came, and nothing is left', async () => {
  const { env } = await start(() => ({ body: new Uint8Array(4 * 1024 * 1024) }))
  const here = folder()
  // As a full disk does, a limit takes a part of the bytes and then no more.
  const limited = `ulimit -f 64; exec "$0" "$@"`
  const copy = ['-c', limited, pinnedNode, door, 'cp', `${desktopId}:/srv/x`, join(here, 'x')]
  const { code, stderr } = await run('bash', copy, { env })
  expect([code, stderr]).toEqual([1, expect.stringMatching(/EFBIG[\s\S]*nothing was written/)])
  expect(readdirSync(here)).toEqual([])
})

test('a file here that cannot be read is named, not the service', async () => {
  const { dormouse } = await start(() => ({ body: written }))
  const { code, stderr } = await dormouse(['cp', '/proc/self/mem', `${desktopId}:/srv/x`])
  expect([code, stderr]).toEqual([2, expect.stringMatching(/\/proc\/self\/mem cannot be read \(EIO\)/)])
})

test.each([
  [404, 'file_not_found', 3],
  [409, 'is_directory', 4],
  [503, 'host_unreachable', 6],
])('%i %s is the exit code of its kind', async (status, code, expected) => {
  const { dormouse } = await refusing(status, code, 'what happened')
  const here = folder()
  const ended = await dormouse(['cp', `${desktopId}:/srv/x`, join(here, 'x')])
  expect([ended.code, ended.stderr]).toEqual([expected, expect.stringContaining('what happened')])
  expect(existsSync(join(here, 'x'))).toBe(false)
})

test('a folder in the desktop is refused with the command that copies one', async () => {
  const { dormouse } = await refusing(409, 'is_directory', 'the path is a directory in the guest')
  const { code, stderr } = await dormouse(['cp', `${desktopId}:/srv`, join(folder(), 'x')])
  expect([code, stderr]).toEqual([4, expect.stringContaining('`dormouse cp -r` copies a whole folder')])
})

test('one of the two must be in a desktop, and the one here must be a file', async () => {
  const { dormouse } = await start(() => ({ body: written }))
  const here = folder()
  expect(statSync(here).isDirectory()).toBe(true)
  expect((await dormouse(['cp', 'a', 'b'])).code).toBe(2)
  expect((await dormouse(['cp', `${desktopId}:/a`, `${desktopId}:/b`])).code).toBe(2)
  expect((await dormouse(['cp', here, `${desktopId}:/b`])).code).toBe(2)
  expect((await dormouse(['cp', join(here, 'none'), `${desktopId}:/b`])).code).toBe(2)
})

/** What an archive has, as the tar of this machine reads it. */
async function listed(archive: Buffer): Promise<string[]> {
  const file = join(folder(), 'archive.tar')
  writeFileSync(file, archive)
  const { stdout } = await run('tar', ['--quoting-style=escape', '--numeric-owner', '-tvf', file])
  return stdout
    .trimEnd()
    .split('\n')
    .map((line) => line.replace(/^(\S+) \S+ +(\d+) \S+ \S+ /, '$1 $2 '))
    .sort()
}

test('a folder goes in as one archive, with its modes and names but no set-id bit, and its links are skipped', async () => {
  const { dormouse, seen } = await start(() => ({ body: { path: '/srv/site', size: 10_240 } }))
  const here = folder()
  const long = 'ü'.repeat(100)
  mkdirSync(join(here, 'site/two\nlines'), { recursive: true, mode: 0o755 })
  writeFileSync(join(here, 'site/a b'), 'one', { mode: 0o600 })
  writeFileSync(join(here, 'site/none'), '')
  chmodSync(join(here, 'site/none'), 0)
  writeFileSync(join(here, 'site', long), Buffer.alloc(3 * 1024 * 1024))
  writeFileSync(join(here, 'site/two\nlines/run'), 'two', { mode: 0o755 })
  chmodSync(join(here, 'site/two\nlines/run'), 0o6755)
  symlinkSync('a b', join(here, 'site/link'))
  const { code, stdout } = await dormouse(['cp', '-r', '--json', join(here, 'site'), `${desktopId}:/srv/site/`])
  const size = 3 * 1024 * 1024 + 6
  expect([code, JSON.parse(stdout)]).toMatchObject([
    0,
    { files: 4, folders: 2, size, skipped: ['link'], skipped_count: 1 },
  ])
  expect(seen.map(({ method, path }) => [method, path])).toEqual([
    ['PUT', `/v1/desktops/${desktopId}/archives/srv/site`],
  ])
  expect(await listed(seen[0]!.body)).toEqual([
    '---------- 0 ./none',
    '-rw------- 3 ./a b',
    `-rw-r--r-- ${3 * 1024 * 1024} ./${[...Buffer.from(long)].map((byte) => `\\${byte.toString(8)}`).join('')}`,
    '-rwxr-xr-x 3 ./two\\nlines/run',
    'drwxr-xr-x 0 ./',
    'drwxr-xr-x 0 ./two\\nlines/',
  ])
})

test('a folder that is interrupted on its way in is sent again from its beginning', async () => {
  let tries = 0
  const { dormouse, seen } = await start(() =>
    tries++ === 0 ? problem(503, 'guest_unavailable', 'away') : { body: { path: '/srv/x', size: 1 } },
  )
  const here = folder()
  writeFileSync(join(here, 'a'), 'x')
  expect(await dormouse(['cp', '-r', here, `${desktopId}:/srv/x`])).toMatchObject({ code: 0 })
  expect(seen[1]!.body.length).toBe(seen[0]!.body.length)
})

const served = (archive: Buffer) => start(() => ({ body: archive }))
const modeOf = (...parts: string[]) => (statSync(join(...parts)).mode & 0o7777).toString(8)

test('a folder comes out with its modes, and what is no file or folder is skipped', async () => {
  const long = `${'ü'.repeat(60)}/${'y'.repeat(200)}`
  const { dormouse, seen } = await served(
    await archiveOf(
      { name: './', type: 'directory' },
      { name: './in/', type: 'directory', mode: 0o500 },
      { name: './in/f', mode: 0o640, body: '0123456789' },
      { name: './in/empty', mode: 0o6755 },
      { name: './in/again', type: 'link', linkname: './in/f' },
      { name: long, body: 'long' },
      { name: './link', type: 'symlink', linkname: 'in' },
      { name: './fifo', type: 'fifo' },
      { name: './device', type: 'character-device' },
    ),
  )
  const to = join(folder(), 'out')
  const { code, stdout } = await dormouse(['cp', '-r', '--json', `${desktopId}:/srv`, to])
  const skipped = ['link', 'fifo', 'device']
  expect([code, JSON.parse(stdout)]).toMatchObject([0, { files: 4, folders: 2, size: 24, skipped, skipped_count: 3 }])
  expect(seen.map(({ method, path }) => [method, path])).toEqual([['GET', `/v1/desktops/${desktopId}/archives/srv`]])
  expect(readdirSync(to, { recursive: true }).sort()).toEqual(
    ['in', 'in/again', 'in/empty', 'in/f', long.split('/')[0], long].sort(),
  )
  for (const file of ['f', 'again']) expect(readFileSync(join(to, 'in', file), 'utf8')).toBe('0123456789')
  expect([modeOf(to, 'in'), modeOf(to, 'in/f'), modeOf(to, 'in/again'), modeOf(to, 'in/empty')]).toEqual([
    '500',
    '640',
    '640',
    '755',
  ])
  chmodSync(join(to, 'in'), 0o700)
})

test('a folder that is cut on its way out is copied again, and leaves no part of a file', async () => {
  const archive = await archiveOf({ name: './one', body: 'one' }, { name: './two', body: 'x'.repeat(100_000) })
  let tries = 0
  const { dormouse } = await start(() => (tries++ === 0 ? 'truncate' : { body: archive }))
  const out = join(folder(), 'out')
  const { code, stdout } = await dormouse(['cp', '-r', `${desktopId}:/srv`, out])
  expect([code, stdout, tries]).toEqual([0, expect.stringContaining('2 files'), 2])
  expect(readdirSync(out).sort()).toEqual(['one', 'two'])
})
