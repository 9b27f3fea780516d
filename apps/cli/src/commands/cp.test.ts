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

test('a folder goes in with its modes and names but no set-id bit, and its links are skipped', async () => {
  const { dormouse, seen } = await start(({ path }) => ({ body: path.endsWith('/entries') ? { entry: {} } : written }))
  const here = folder()
  mkdirSync(join(here, 'site/two\nlines'), { recursive: true, mode: 0o755 })
  writeFileSync(join(here, 'site/a b'), 'one', { mode: 0o600 })
  writeFileSync(join(here, 'site/two\nlines/run'), 'two', { mode: 0o755 })
  chmodSync(join(here, 'site/two\nlines/run'), 0o6755)
  symlinkSync('a b', join(here, 'site/link'))
  const { code, stdout } = await dormouse(['cp', '-r', '--json', join(here, 'site'), `${desktopId}:/srv/site/`])
  expect([code, JSON.parse(stdout)]).toMatchObject([0, { files: 2, folders: 2, size: 6, skipped: ['link'] }])
  const folders = seen.filter(({ method }) => method === 'POST').map(({ body }) => JSON.parse(String(body)))
  expect(folders).toEqual([
    { action: 'mkdir', path: '/srv/site', mode: '0755' },
    { action: 'mkdir', path: '/srv/site/two\nlines', mode: '0755' },
  ])
  const puts = seen.filter(({ method }) => method === 'PUT')
  expect(puts.map(({ path, query, body }) => [path, query.get('mode'), String(body)]).sort()).toEqual([
    [`${files}/srv/site/a%20b`, '0600', 'one'],
    [`${files}/srv/site/two%0Alines/run`, '0755', 'two'],
  ])
})

test('a folder comes out with its modes, and a file that was cut goes on where it was', async () => {
  const bytes = Buffer.from('0123456789')
  const common = { exact_path: true, uid: 0, gid: 0, modified_at: '2026-11-02T09:30:00.000Z', target: null }
  const entries = [
    { ...common, path: '/srv/in', type: 'directory', size: 0, mode: '0500' },
    { ...common, path: '/srv/in/empty', type: 'file', size: 0, mode: '6755' },
    { ...common, path: '/srv/in/f', type: 'file', size: 10, mode: '0640' },
    { ...common, path: '/srv/link', type: 'link', size: 1, mode: '0777', target: 'in' },
  ]
  const asked: (string | undefined)[] = []
  const { dormouse } = await start(({ path, headers }) => {
    if (path.endsWith('/entries')) return { body: { entries, next_cursor: null } }
    if (path.endsWith('/empty')) return problem(416, 'range_not_satisfiable', 'empty')
    asked.push(headers.range, String(headers['if-range']))
    const from = Number(/\d+/.exec(headers.range!)![0])
    const range = { 'content-range': `bytes ${from}-9/10`, etag: '"v1"' }
    return asked.length === 2
      ? problem(503, 'guest_unavailable', 'away')
      : { status: 206, headers: range, body: bytes.subarray(from) }
  })
  const here = folder()
  const { code, stdout } = await dormouse(['cp', '-r', `${desktopId}:/srv`, join(here, 'out')])
  expect([code, stdout]).toEqual([0, expect.stringContaining('2 files, 2 folders')])
  expect(readFileSync(join(here, 'out/in/f'), 'utf8')).toBe('0123456789')
  expect(readdirSync(join(here, 'out/in')).sort()).toEqual(['empty', 'f'])
  expect([statSync(join(here, 'out/in')).mode & 0o777, statSync(join(here, 'out/in/f')).mode & 0o777]).toEqual([
    0o500, 0o640,
  ])
  expect(statSync(join(here, 'out/in/empty')).mode & 0o7777).toBe(0o755)
  chmodSync(join(here, 'out/in'), 0o700)
})

test('a path that leads out of the folder is not written', async () => {
  const entry = { path: '/srv/../../etc/x', exact_path: true, type: 'file', size: 1, mode: '0644', uid: 0, gid: 0 }
  const shown = { ...entry, modified_at: '2026-11-02T09:30:00.000Z', target: null }
  const { dormouse } = await start(() => ({ body: { entries: [shown], next_cursor: null } }))
  const { code, stderr } = await dormouse(['cp', '-r', `${desktopId}:/srv`, join(folder(), 'out')])
  expect([code, stderr]).toEqual([1, expect.stringContaining('not in the folder')])
})
