import {
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
  expect(copied.stdout).toMatch(/^\/srv\/a b\.txt {2}5 B in .* s, .* MiB\/s\n$/)
  await dormouse(['cp', '--mode', '0600', file, `${desktopId}:srv/`])
  expect(seen.map(({ method, path, query, body }) => [method, path, query.get('mode'), String(body)])).toEqual([
    ['PUT', `${files}/srv/a%20b.txt`, '0750', 'bytes'],
    ['PUT', `${files}/srv/a%20b.txt`, '0600', 'bytes'],
  ])
})

test('more than a desktop takes at a time is not even sent', async () => {
  const { dormouse, seen } = await start(() => ({ body: written }))
  const file = join(folder(), 'big')
  writeFileSync(file, Buffer.alloc(8 * 1024 * 1024 + 1))
  const { code, stderr } = await dormouse(['cp', file, `${desktopId}:/srv/big`])
  expect([code, stderr]).toEqual([2, expect.stringContaining('8 MiB')])
  expect(seen).toEqual([])
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
  const ended = await dormouse(['cp', `${desktopId}:/srv/x`, join(here, 'x')], { env: { DORMOUSE_RETRIES: '0' } })
  expect([ended.code, ended.stderr]).toEqual([expected, expect.stringContaining('what happened')])
  expect(existsSync(join(here, 'x'))).toBe(false)
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
