// Entries of a real guest's file system, over whatever way it is reached.
import { randomBytes } from 'node:crypto'
import { buffer } from 'node:stream/consumers'
import { expect } from 'vitest'
import { waitFor } from '../../wait-for.ts'
import { codeOf, type GuestStage } from './guest-stage.ts'

/** Lists and changes a folder with difficult names, more entries than a page, links and a device. */
export async function worksOnEntries(stage: GuestStage): Promise<void> {
  const { files } = stage.desktop
  const names = ['two\nlines\n', 'a b', `"q" 'q'`, '-rf', 'Grüße 🐹']
  await files.mkdir('/srv/entries/in', { mode: '0750' })
  for (const name of names) await files.write(`/srv/entries/in/${name}`, name)
  await stage.run('cd /srv/entries && ln -s "in x" link && mknod null c 1 3')
  const listed = await Array.fromAsync(files.list('/srv/entries', { depth: 2, pageSize: 3 }))
  const below = names.map((name) => `/srv/entries/in/${name}`)
  const sorted = ['/srv/entries/in', '/srv/entries/link', '/srv/entries/null', ...below].sort((a, b) =>
    Buffer.compare(Buffer.from(a), Buffer.from(b)),
  )
  expect(listed.map(({ path }) => path)).toEqual(sorted)
  expect(await files.stat('/srv/entries/in')).toMatchObject({ type: 'directory', mode: '0750', uid: 0, gid: 0 })
  expect(await files.stat('/srv/entries/link')).toMatchObject({ type: 'link', target: 'in x' })
  expect(await files.stat('/srv/entries/null')).toMatchObject({ type: 'character_device' })
  expect(await codeOf(files.stat('/srv/entries/none'))).toBe('file_not_found')
  expect(await codeOf(files.remove('/srv/entries/in'))).toBe('not_empty')
  await files.copy('/srv/entries/in', '/run/entries/copy', { recursive: true })
  expect(await codeOf(files.move('/run/entries/copy/-rf', '/run/entries/copy/a b'))).toBe('file_exists')
  await files.move('/run/entries/copy/-rf', '/run/entries/copy/a b', { overwrite: true })
  expect(await files.read('/run/entries/copy/a b')).toBe('-rf')
  await files.chmod('/run/entries/copy', '0700', { recursive: true })
  expect(await files.stat('/run/entries/copy/a b')).toMatchObject({ mode: '0700', size: 3 })
  await stage.run(
    'mkdir /run/many-entries; cd /run/many-entries; i=0; while [ $i -lt 1100 ]; do : >$i; i=$((i + 1)); done',
  )
  expect(await Array.fromAsync(files.list('/run/many-entries', { pageSize: 1000 }))).toHaveLength(1100)
  const bytes = randomBytes(700_000)
  await files.write('/srv/entries/part', bytes)
  const { version, ...part } = await files.readPart('/srv/entries/part', { offset: 300_001, length: 300_000 })
  expect(part).toMatchObject({ offset: 300_001, size: 700_000 })
  expect((await buffer(part.stream)).equals(bytes.subarray(300_001, 600_001))).toBe(true)
  const rest = await files.readPart('/srv/entries/part', { offset: 699_999, version: version! })
  expect([rest.offset, (await buffer(rest.stream)).equals(bytes.subarray(-1))]).toEqual([699_999, true])
  expect(await codeOf(files.readPart('/srv/entries/part', { offset: 700_000 }))).toBe('range_not_satisfiable')
  await stage.run('echo more >>/srv/entries/part')
  const changed = await files.readPart('/srv/entries/part', { offset: 5, version: version! })
  expect([changed.offset, (await buffer(changed.stream)).length]).toEqual([0, 700_005])
  await watchesFolder(stage)
  const large = randomBytes(3 * 1024 * 1024)
  const parts: number[] = []
  await files.upload('/srv/entries/in/large', large, {
    mode: '0640',
    pieceBytes: 1_000_000,
    onProgress: (at) => parts.push(at),
  })
  expect(parts).toEqual([1_000_000, 2_000_000, 3_000_000, large.length])
  expect(await files.stat('/srv/entries/in/large')).toMatchObject({ mode: '0640', size: large.length })
  expect(Buffer.from(await files.read('/srv/entries/in/large', { format: 'bytes' })).equals(large)).toBe(true)
  expect(await codeOf(files.upload('/srv/entries/in', large))).toBe('is_directory')
  expect(await stage.run('ls -a /srv/entries /srv/entries/in | grep -c dormouse || :')).toBe('0\n')
  for (const folder of ['/srv/entries', '/run/entries', '/run/many-entries'])
    await files.remove(folder, { recursive: true })
  expect(await codeOf(files.stat('/run/entries'))).toBe('file_not_found')
}

/** What changes below a folder is seen, also what a command makes at once and what was changed before the reader came back. */
async function watchesFolder(stage: GuestStage): Promise<void> {
  const cursors: string[] = []
  const watched = (cursor?: string) =>
    stage.desktop.files.watch('/srv/entries', {
      recursive: true,
      onCursor: (next) => void cursors.push(next),
      ...(cursor !== undefined && { cursor }),
    })
  const until = async (last: RegExp, cursor?: string) => {
    const seen: string[] = []
    for await (const { type, path, to } of watched(cursor)) {
      seen.push(`${type} ${[path, to].flatMap((one) => one?.slice('/srv/entries/'.length) ?? []).join(' ')}`)
      if (last.test(seen.at(-1)!)) return seen
    }
    return seen
  }
  // What is there before a new folder was first looked at is only created: no write of it is seen.
  const following = until(/ new\/deep\/b$/)
  await waitFor(() => cursors.length > 0, 60_000)
  await stage.run('cd /srv/entries && mkdir -p new/deep && echo a >new/deep/a && mv new/deep/a new/deep/b')
  expect(await following).toContain('created new')
  await stage.run('cd /srv/entries && echo b >>new/deep/b && mv new newer && rm newer/deep/b')
  const later = await until(/^removed newer\/deep\/b$/, cursors.at(-1))
  expect(later).toEqual(expect.arrayContaining(['written new/deep/b', 'moved new newer']))
  await stage.desktop.files.remove('/srv/entries/newer', { recursive: true })
}
