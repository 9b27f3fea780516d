// Guarantee: on real guests, a file arrives byte for byte, whole or not at all, whatever
// it is called, and what the guest's file system refuses has its name and leaves nothing behind.
import { execFileSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { waitFor } from '../wait-for.ts'
import { worksOnEntries } from './parts/entries.ts'
import { codeOf, GuestStage, md5 } from './parts/guest-stage.ts'
import { Instance } from './parts/instance.ts'

const mib = 1024 * 1024
const long = process.env.DORMOUSE_TEST_LONG === '1'
/** The guest agent takes seconds if SSH takes a fraction of one. */
const hash = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex')

let instance: Instance
beforeAll(async () => {
  instance = await Instance.start()
})
afterAll(async () => {
  await instance?.[Symbol.asyncDispose]()
})

describe('in a guest', () => {
  let stage: GuestStage
  beforeAll(async () => {
    stage = await GuestStage.awake(instance)
  })
  afterAll(async () => {
    await stage?.desktop.destroy()
  })

  const put = (path: string, bytes: Uint8Array<ArrayBuffer> | string, mode?: string) => stage.put(path, bytes, mode)
  const get = (path: string) => stage.get(path)
  const litter = async (folder: string) => (await stage.run(`ls -A ${folder} | grep -c '^.dormouse-' || :`)).trim()

  const rounds = long ? 200 : 5
  test(`8 MiB written ${rounds} times come back with the same hash, under load`, { timeout: 1_800_000 }, async () => {
    await stage.run('(while [ ! -e /run/enough ]; do :; done) </dev/null >/dev/null 2>&1 &')
    for (let round = 0; round < rounds; round++) {
      const bytes = randomBytes(8 * mib)
      expect(await put('/srv/big', bytes)).toEqual({ path: '/srv/big', size: bytes.length })
      expect(md5(await get('/srv/big'))).toBe(md5(bytes))
      expect((await stage.run('md5sum </srv/big')).slice(0, 32)).toBe(md5(bytes))
    }
    await stage.run('touch /run/enough')
    expect(await litter('/srv')).toBe('0')
  })

  test.each([
    'a file with spaces',
    `both "kinds" of 'quotes'`,
    'two\nlines\n',
    'schöne Grüße 🐹',
    '-rf *',
    '$(id) `id` $HOME',
    '\\back\\slash',
    'x'.repeat(255),
  ])('%j is a name like any other', async (name) => {
    const path = `/srv/names/${name}`
    await put(path, name)
    expect(Buffer.from(await get(path)).toString()).toBe(name)
    expect((await stage.exec(['cat', path])).stdout).toBe(name)
  })

  test('folders are listed and changed as they are', async () => {
    await worksOnEntries(stage)
  })

  test('an empty file, every byte value and a kernel file without a size are read unchanged', async () => {
    const all = Uint8Array.from({ length: 256 }, (_, i) => i)
    await put('/srv/all', all)
    expect(Buffer.from(await get('/srv/all')).equals(Buffer.from(all))).toBe(true)
    await put('/srv/nothing', '')
    expect(await get('/srv/nothing')).toHaveLength(0)
    const version = Buffer.from(await get('/proc/version')).toString()
    expect(version).toMatch(/^Linux version/)
    const { url } = await stage.desktop.files.url('/proc/version')
    expect(await (await fetch(url)).text()).toBe(version)
    const part = await stage.desktop.files.readPart('/proc/version', { offset: 6, length: 7 })
    expect([part.offset, part.size, await new Response(part.stream).text()]).toEqual([6, version.length, 'version'])
  })

  test('a reader in the guest sees the old file or the new one, never a part', async () => {
    const [one, two] = ['1', '2'].map((digit) => digit.repeat(2 * mib))
    await put('/srv/whole', one!)
    const watching = stage.run(
      'i=0; while [ $i -lt 40 ] && [ ! -e /run/watched ]; do i=$((i + 1)); wc -c </srv/whole; cut -c1 /srv/whole | sort -u; done; rm -f /run/watched',
    )
    for (const bytes of [two!, one!, two!]) await put('/srv/whole', bytes)
    await stage.run('touch /run/watched')
    const lines = new Set((await watching).trim().split('\n'))
    expect(lines).not.toEqual(new Set(['']))
    expect([...lines].filter((line) => line !== String(2 * mib) && line !== '1' && line !== '2')).toEqual([])
  })

  test('a new file gets the given mode; a replaced file keeps its owner and mode', async () => {
    const stat = (path: string) => stage.run(`stat -c '%a %u:%g' ${path}`)
    await put('/srv/moded', 'x', '0750')
    expect(await stat('/srv/moded')).toBe('750 0:0\n')
    await stage.run('chown 1000:1000 /srv/moded; chmod 600 /srv/moded')
    await put('/srv/moded', 'y')
    expect(await stat('/srv/moded')).toBe('600 1000:1000\n')
  })

  test('a directory, a loop, a FIFO, a device and what is below a file are refused by name', async () => {
    await stage.run(
      'mkdir -p /srv/odd/dir; cd /srv/odd; ln -sf loop loop; ln -sf b a; ln -sf a b; [ -p fifo ] || mkfifo fifo; echo x >file; ln -sf real link',
    )
    const cases: [path: string, write: string, read: string][] = [
      ['dir', 'is_directory', 'is_directory'],
      ['loop', 'symlink_loop', 'symlink_loop'],
      ['a', 'symlink_loop', 'symlink_loop'],
      ['a/below', 'symlink_loop', 'symlink_loop'],
      ['fifo', 'not_regular', 'not_regular'],
      ['file/below', 'not_directory', 'file_not_found'],
      ['missing/file', 'done', 'done'],
    ]
    for (const [path, write, read] of cases) {
      expect([path, await codeOf(put(`/srv/odd/${path}`, 'x'))]).toEqual([path, write])
      expect([path, await codeOf(get(`/srv/odd/${path}`))]).toEqual([path, read])
    }
    expect(await codeOf(put('/dev/vda', 'x'))).toBe('not_regular')
    expect(await codeOf(get('/srv/odd/none'))).toBe('file_not_found')
    await put('/srv/odd/link', 'through the link')
    expect(await stage.run('cat /srv/odd/real; readlink /srv/odd/link')).toBe('through the linkreal\n')
    expect(await litter('/srv/odd')).toBe('0')
  })

  test('a file that is a mount point is refused by name, and stays', async () => {
    await stage.run(
      'mkdir -p /srv/busy /home/dev; cd /srv/busy; echo in >inner; touch mounted; mount --bind inner mounted',
    )
    await expect(put('/srv/busy/mounted', 'new')).rejects.toMatchObject({
      problem: { status: 409, code: 'busy', detail: expect.stringMatching(/^\/srv\/busy\/mounted: /) },
    })
    expect(await codeOf(stage.desktop.files.remove('/srv/busy/mounted'))).toBe('busy')
    expect(await stage.run('cat /srv/busy/mounted; umount /srv/busy/mounted')).toBe('in\n')
    expect(await litter('/srv/busy')).toBe('0')
  })

  test('what is new belongs to the owner of its folder, or to whom was named', async () => {
    await stage.run('mkdir -p /home/dev && chown 1000:1001 /home/dev')
    const { files } = stage.desktop
    await files.write('/home/dev/in/a', 'x')
    await files.upload('/home/dev/up/b', 'x')
    await files.mkdir('/home/dev/made/deep')
    await files.write('/home/dev/c', 'x', { owner: '7:8' })
    const owners = await stage.run('cd /home/dev && stat -c %u:%g in in/a up up/b made made/deep c')
    expect(owners.trim().split('\n')).toEqual([...Array(6).fill('1000:1001'), '7:8'])
    await stage.run('rm -r /home/dev')
  })

  test('a path stays in the guest: no link, mount or name in it reaches a file of the host', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'dormouse-host-'))
    const secret = join(folder, 'secret')
    writeFileSync(secret, 'of the host')
    await stage.run(`mkdir -p /srv/out; cd /srv/out; ln -sfn / root; ln -sf ${secret} link; ln -sfn ../../../../.. up`)
    const ways = [secret, '/srv/out/link', `/srv/out/root${secret}`, `/srv/out/up${secret}`, `/proc/1/root${secret}`]
    for (const way of ways) expect([way, await codeOf(get(way))]).toEqual([way, 'file_not_found'])
    for (const way of ways) expect([way, await codeOf(put(way, 'of the guest'))]).toEqual([way, 'done'])
    expect(await stage.run(`cat ${secret}`)).toBe('of the guest')
    expect([readFileSync(secret, 'utf8'), readdirSync(folder)]).toEqual(['of the host', ['secret']])
    rmSync(folder, { recursive: true })
    const files = `/v1/desktops/${stage.desktop.id}/files`
    const disguises = ['/srv/../etc/passwd', '/srv/%2e%2e/x', '/srv/.%2E/x', '/%2e%2e%2fetc/passwd', '/srv/%00', '/']
    for (const path of disguises) expect([path, await stage.status('GET', `${files}${path}`)]).toEqual([path, 400])
  })

  test('a read-only and a full file system say so, the old file stays, and the guest goes on', async () => {
    await stage.run(
      'mkdir -p /mnt/ro /mnt/full; mount -t tmpfs -o size=1m tmpfs /mnt/full; mount -t tmpfs tmpfs /mnt/ro; echo old >/mnt/full/x; echo old >/mnt/ro/x; mount -o remount,ro /mnt/ro',
    )
    expect(await codeOf(put('/mnt/ro/x', 'new'))).toBe('read_only')
    expect(await codeOf(put('/mnt/ro/deep/y', 'new'))).toBe('read_only')
    expect(await codeOf(put('/mnt/full/x', Buffer.alloc(2 * mib)))).toBe('no_space')
    expect(await stage.run('cat /mnt/ro/x /mnt/full/x')).toBe('old\nold\n')
    expect(await litter('/mnt/full')).toBe('0')
    await stage.run('umount /mnt/ro /mnt/full')
  })

  test('a folder goes in and out as one archive, and nothing stays of one that was cut', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'dormouse-folder-'))
    mkdirSync(join(folder, 'deep/er'), { recursive: true })
    mkdirSync(join(folder, 'empty'), { mode: 0o750 })
    for (let i = 0; i < 100; i++) writeFileSync(join(folder, 'deep', `many-${i}`), String(i))
    writeFileSync(join(folder, 'deep/er', 'Grüße\n'.repeat(15)), 'text', { mode: 0o755 })
    writeFileSync(join(folder, 'large'), randomBytes(10 * mib))
    const archive = execFileSync('tar', ['-cf', '-', '-C', folder, '.'], { maxBuffer: 64 * mib })
    const { files } = stage.desktop
    await stage.run('mkdir -p /srv/folder/deep && echo old >/srv/folder/deep/many-7 && echo kept >/srv/folder/kept')
    await files.writeArchive('/srv/folder', archive)
    expect(await stage.run('cat /srv/folder/kept; rm /srv/folder/kept')).toBe('kept\n')
    const back = mkdtempSync(join(tmpdir(), 'dormouse-back-'))
    const out = Buffer.from(await new Response(await files.readArchive('/srv/folder')).arrayBuffer())
    execFileSync('tar', ['-xf', '-', '-C', back], { input: out })
    expect(execFileSync('diff', ['-r', folder, back]).toString()).toBe('')
    expect(await stage.run('stat -c %a /srv/folder/empty /srv/folder/large')).toBe('750\n644\n')
    const sent = stage.open('PUT', '/srv/cut', { 'content-length': String(archive.length) }, 'archives')
    sent.write(archive.subarray(0, 4 * mib))
    await waitFor(async () => (await litter('/srv')) === '1', 10_000)
    sent.destroy()
    await waitFor(async () => (await litter('/srv')) === '0', 10_000)
    expect(await stage.run('ls -d /srv/cut 2>&1 || :')).toContain('No such file')
    for (const each of [folder, back]) rmSync(each, { recursive: true })
  })

  test('a client that disconnects during a write leaves the old file and no temporary one', async () => {
    await put('/srv/kept', 'old')
    const sent = stage.open('PUT', '/srv/kept', { 'content-length': String(8 * mib) })
    sent.write(Buffer.alloc(4 * mib))
    await waitFor(async () => (await litter('/srv')) === '1', 10_000)
    sent.destroy()
    await waitFor(async () => (await litter('/srv')) === '0', 10_000)
    const reading = stage.open('GET', '/srv/big')
    reading.end()
    const [response] = (await once(reading, 'response')) as [IncomingMessage]
    await once(response, 'data')
    response.destroy()
    expect(await stage.run('cat /srv/kept')).toBe('old')
  })

  test('a file larger than any request is read to its end', async () => {
    await stage.run('dd if=/dev/urandom of=/srv/large bs=1M count=40 2>/dev/null')
    const expected = (await stage.run('sha256sum </srv/large; sync')).slice(0, 64)
    expect(hash(await get('/srv/large'))).toBe(expected)
    await stage.run('rm /srv/large')
  })

  test('a hibernation during a transfer answers 503, and leaves no temporary file', async () => {
    const sent = stage.open('PUT', '/srv/cut', { 'content-length': String(8 * mib) })
    const answered = once(sent, 'response') as Promise<[IncomingMessage]>
    sent.write(Buffer.alloc(2 * mib))
    await waitFor(async () => (await litter('/srv')) === '1', 10_000)
    await stage.desktop.hibernate()
    const [response] = await answered
    expect(response.statusCode).toBe(503)
    response.resume()
    await stage.desktop.wake()
    expect(await codeOf(get('/srv/cut'))).toBe('file_not_found')
  })
})
