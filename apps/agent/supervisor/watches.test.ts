// Guarantee: a watch prints each change of a folder, also of what is new below it, keeps it for a reader who comes later, and
// ends with a reason if it cannot follow. The real program runs here, on this machine, as in a guest.
import { execFileSync } from 'node:child_process'
import {
  appendFileSync,
  chmodSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { newId } from '@dormouse/contract'
import { afterAll, expect, test } from 'vitest'
import { waitFor } from '../../../test/wait-for.ts'
import type { GuestCall, GuestTransport } from '../src/driver/guest-transport.ts'
import { GuestWatches } from '../src/guest/watches.ts'
import { supervisorProgram } from '../src/scripts/supervisor-program.ts'

const place = mkdtempSync(join(tmpdir(), 'dormouse-watches-'))
const program = join(place, 'program')
writeFileSync(program, supervisorProgram)
chmodSync(program, 0o700)
const watches = new GuestWatches()
const started: string[] = []

/** This machine as a guest, with a place of its own. */
const guest = {
  call: async ({ words: [folder, ...words] }: GuestCall) =>
    execFileSync(program, [join(place, `${folder}`), ...words.map(String)]),
} as unknown as GuestTransport

afterAll(async () => {
  for (const id of started) await watches.remove(guest, { id })
  rmSync(place, { recursive: true })
})

async function start(path: string, recursive: boolean) {
  const id = newId()
  started.push(id)
  let { next } = await watches.start(guest, { id, path, recursive })
  const read = (offset: number, waitMs = 0) => watches.read(guest, { id, offset, wait_ms: waitMs })
  /** What came, in short, once the last of it is there. */
  const until = (last: string) =>
    waitFor(`${last} in a watch`, async () => {
      const { changes } = await read(next)
      const lines = changes.map(({ type, folder, path: at, to }) =>
        [type, folder ? 'folder' : 'file', ...[at, to].flatMap((one) => (one === null ? [] : one.slice(path.length)))]
          .join(' ')
          .replace(/ $/, ' .'),
      )
      if (!lines.includes(last)) return undefined
      next = (await read(next)).next
      return lines
    })
  return { id, read, until, next: () => next }
}

const folderOf = () => mkdtempSync(join(place, 'watched-'))

test('a folder is watched alone, each change in its order and with its name', async () => {
  const folder = folderOf()
  mkdirSync(join(folder, 'below'))
  const { until } = await start(folder, false)
  writeFileSync(join(folder, 'two\nlines Grüße'), 'x')
  writeFileSync(join(folder, 'below/hidden'), 'x')
  renameSync(join(folder, 'two\nlines Grüße'), join(folder, 'b'))
  chmodSync(join(folder, 'b'), 0o600)
  appendFileSync(join(folder, 'b'), 'y')
  rmSync(join(folder, 'b'))
  mkdirSync(join(folder, 'c'))
  expect(await until('created folder /c')).toEqual([
    'created file /two\nlines Grüße',
    'modified file /two\nlines Grüße',
    'written file /two\nlines Grüße',
    'moved file /two\nlines Grüße /b',
    'attributes file /b',
    'modified file /b',
    'written file /b',
    'removed file /b',
    'created folder /c',
  ])
})

test('folders that appear, move and leave are followed, and links and what has left are not', async () => {
  const [folder, outside] = [folderOf(), folderOf()]
  mkdirSync(join(folder, 'a/b'), { recursive: true })
  symlinkSync(outside, join(folder, 'link'))
  const { until } = await start(folder, true)
  mkdirSync(join(folder, 'n/e/w'), { recursive: true })
  writeFileSync(join(folder, 'n/e/w/file'), 'x')
  expect(await until('created file /n/e/w/file')).toContain('created folder /n/e/w')
  renameSync(join(folder, 'a'), join(folder, 'n/moved'))
  await until('moved folder /a /n/moved')
  writeFileSync(join(folder, 'n/moved/b/deep'), 'x')
  await until('written file /n/moved/b/deep')
  renameSync(join(folder, 'n/moved'), join(outside, 'gone'))
  await until('removed folder /n/moved')
  writeFileSync(join(outside, 'gone/b/unseen'), 'x')
  renameSync(join(outside, 'gone'), join(folder, 'back'))
  expect(await until('created file /back/b/unseen')).not.toContain('written file /n/moved/b/unseen')
  writeFileSync(join(folder, 'back/b/seen'), 'x')
  await until('written file /back/b/seen')
})

test('what nobody reads is kept up to a limit, and the reader is told where some is missing', async () => {
  const folder = folderOf()
  const { read, next } = await start(folder, false)
  const name = join(folder, 'x'.repeat(200))
  const from = next()
  const { ended } = await read(from)
  expect(ended).toBe(false)
  // 1 MiB is kept.
  await waitFor('the ring to be full', async () => {
    for (let i = 0; i < 500; i++) appendFileSync(name, 'x')
    return (await read(from)).missed
  })
  // Until everything is printed, what has just been read may be dropped.
  const last = join(folder, 'last')
  writeFileSync(last, '')
  let at = from
  await waitFor('the last change', async () => {
    const { changes, next: behind } = await read(at)
    at = behind
    return changes.some(({ path }) => path === last)
  })
  const { changes, missed, next: behind } = await read(from)
  expect([missed, changes.every(({ path }) => path === name)]).toEqual([true, true])
  expect((await read(behind)).missed).toBe(false)
})

test('a watch ends with its folder and with its limits, and one that is not there has missed something', async () => {
  const folder = folderOf()
  const { read, next, id } = await start(folder, true)
  rmdirSync(folder)
  await waitFor('its end', async () => (await read(next())).ended)
  expect(await watches.read(guest, { id: newId(), offset: 5, wait_ms: 0 })).toMatchObject({
    missed: true,
    ended: true,
  })
  await watches.remove(guest, { id })
  const refused = (path: string) => start(path, false).catch((error: { code: string }) => error.code)
  expect(await refused(join(folder, 'none'))).toBe('file_not_found')
  expect(await refused(program)).toBe('not_directory')
  const parent = folderOf()
  const many = await Promise.all(Array.from({ length: 17 }, () => refused(parent)))
  expect(many.filter((one) => one === 'watch_limit').length).toBeGreaterThan(0)
  const list = execFileSync(program, [join(place, 'watches'), 'list'], { encoding: 'utf8' })
  expect(list.split('\n').filter((line) => line.includes(' running '))).toHaveLength(16)
})
