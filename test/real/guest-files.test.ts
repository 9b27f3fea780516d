// Guarantee: on real guests, over SSH and over the guest agent, a file arrives byte for byte, whole or not at all, whatever
// it is called, and what the guest's file system refuses has its name and leaves nothing behind.
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import { type Client, createClient, type Desktop } from '@dormouse/client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Instance, until } from './instance.ts'
import { desktopOver, makeImages, transports } from './transports.ts'
import { guest } from './witness.ts'

const mib = 1024 * 1024
const rounds = process.env.DORMOUSE_TEST_LONG === '1' ? 200 : 5
const hash = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex')

let instance: Instance
beforeAll(async () => {
  await makeImages()
  instance = await Instance.start()
})
afterAll(async () => {
  await instance?.[Symbol.asyncDispose]()
})

describe.each(transports)('over %s', (transport) => {
  let desktop: Desktop
  let client: Client
  beforeAll(async () => {
    desktop = await desktopOver(instance, transport)
    client = createClient({ baseUrl: instance.local.base_url, apiKey: instance.local.api_key, retries: 0 })
  })
  afterAll(async () => {
    await desktop?.destroy()
  })

  const put = (path: string, bytes: Uint8Array<ArrayBuffer> | string, mode?: string) =>
    client.writeFile(desktop.id, path, bytes, mode ? { mode } : {})
  const get = (path: string) => client.readFile(desktop.id, path)
  const codeOf = (asked: Promise<unknown>) =>
    asked.then(
      () => 'done',
      (error) => error.problem?.code ?? String(error),
    )
  const litter = async (folder: string) => (await guest(desktop, `ls -A ${folder} | grep -c '^.dormouse-' || :`)).trim()

  test(`8 MiB written ${rounds} times come back with the same hash, under load`, async () => {
    const load = guest(
      desktop,
      'i=0; while [ $i -lt 300 ]; do i=$((i + 1)); done; dd if=/dev/zero bs=64k count=50 2>/dev/null | sha256sum',
    )
    for (let round = 0; round < rounds; round++) {
      const bytes = randomBytes(8 * mib)
      expect(await put('/srv/big', bytes)).toEqual({ path: '/srv/big', size: bytes.length })
      expect(hash(await get('/srv/big'))).toBe(hash(bytes))
      expect((await guest(desktop, 'sha256sum </srv/big')).slice(0, 64)).toBe(hash(bytes))
    }
    await load
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
    expect((await client.exec(desktop.id, { command: ['cat', path] })).stdout).toBe(name)
  })

  test('nothing, every byte value and a file of the kernel’s that has no size come as they are', async () => {
    const all = Uint8Array.from({ length: 256 }, (_, i) => i)
    await put('/srv/all', all)
    expect(Buffer.from(await get('/srv/all')).equals(Buffer.from(all))).toBe(true)
    await put('/srv/nothing', '')
    expect(await get('/srv/nothing')).toHaveLength(0)
    expect(Buffer.from(await get('/proc/version')).toString()).toMatch(/^Linux version/)
  })

  test('a reader in the guest sees the old file or the new one, never a part', async () => {
    const [one, two] = ['1', '2'].map((digit) => digit.repeat(2 * mib))
    await put('/srv/whole', one!)
    const watching = guest(
      desktop,
      'i=0; while [ $i -lt 40 ] && [ ! -e /run/enough ]; do i=$((i + 1)); wc -c </srv/whole; cut -c1 /srv/whole | sort -u; done; rm -f /run/enough',
    )
    for (const bytes of [two!, one!, two!]) await put('/srv/whole', bytes)
    await guest(desktop, 'touch /run/enough')
    const lines = new Set((await watching).trim().split('\n'))
    expect([...lines].filter((line) => line !== String(2 * mib) && line !== '1' && line !== '2')).toEqual([])
  })

  test('a mode that is given is taken; owner and mode of a file that is replaced stay', async () => {
    const stat = (path: string) => guest(desktop, `stat -c '%a %u:%g' ${path}`)
    await put('/srv/moded', 'x', '0750')
    expect(await stat('/srv/moded')).toBe('750 0:0\n')
    await guest(desktop, 'chown 1000:1000 /srv/moded; chmod 600 /srv/moded')
    await put('/srv/moded', 'y')
    expect(await stat('/srv/moded')).toBe('600 1000:1000\n')
  })

  test('a directory, a loop, a FIFO, a device and what is below a file are refused by name', async () => {
    await guest(
      desktop,
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
    expect(await guest(desktop, 'cat /srv/odd/real; readlink /srv/odd/link')).toBe('through the linkreal\n')
    expect(await litter('/srv/odd')).toBe('0')
  })

  test('a read-only and a full file system say so, the old file stays, and the guest goes on', async () => {
    await guest(
      desktop,
      'mkdir -p /mnt/ro /mnt/full; mount -t tmpfs -o size=1m tmpfs /mnt/full; mount -t tmpfs tmpfs /mnt/ro; echo old >/mnt/full/x; echo old >/mnt/ro/x; mount -o remount,ro /mnt/ro',
    )
    expect(await codeOf(put('/mnt/ro/x', 'new'))).toBe('read_only')
    expect(await codeOf(put('/mnt/ro/deep/y', 'new'))).toBe('read_only')
    expect(await codeOf(put('/mnt/full/x', Buffer.alloc(2 * mib)))).toBe('no_space')
    expect(await guest(desktop, 'cat /mnt/ro/x /mnt/full/x')).toBe('old\nold\n')
    expect(await litter('/mnt/full')).toBe('0')
    await guest(desktop, 'umount /mnt/ro /mnt/full')
  })

  test('a caller who goes away in the middle leaves the old file and no litter', async () => {
    await put('/srv/kept', 'old')
    const sent = open('PUT', '/srv/kept', { 'content-length': String(8 * mib) })
    sent.on('error', () => undefined)
    sent.write(Buffer.alloc(4 * mib))
    await until(async () => (await litter('/srv')) === '1', 10_000)
    sent.destroy()
    await until(async () => (await litter('/srv')) === '0', 10_000)
    const reading = open('GET', '/srv/big')
    reading.end()
    const [response] = (await once(reading, 'response')) as [IncomingMessage]
    await once(response, 'data')
    response.destroy()
    expect(await guest(desktop, 'cat /srv/kept')).toBe('old')
  })

  test('a file larger than any request is read to its end', async () => {
    await guest(desktop, 'dd if=/dev/urandom of=/srv/large bs=1M count=40 2>/dev/null')
    const expected = (await guest(desktop, 'sha256sum </srv/large; sync')).slice(0, 64)
    expect(hash(await get('/srv/large'))).toBe(expected)
    await guest(desktop, 'rm /srv/large')
  })

  test('a desktop that hibernates in the middle of a transfer answers 503, and wakes without litter', async () => {
    const sent = open('PUT', '/srv/cut', { 'content-length': String(8 * mib) })
    const answered = once(sent, 'response') as Promise<[IncomingMessage]>
    sent.write(Buffer.alloc(2 * mib))
    await until(async () => (await litter('/srv')) === '1', 10_000)
    await desktop.hibernate()
    const [response] = await answered
    expect(response.statusCode).toBe(503)
    response.resume()
    await desktop.wake()
    expect(await codeOf(get('/srv/cut'))).toBe('file_not_found')
  })

  function open(method: string, path: string, headers: Record<string, string> = {}): ClientRequest {
    const { base_url, api_key } = instance.local
    const url = new URL(`/v1/desktops/${desktop.id}/files${path}`, base_url)
    return request(url, { method, agent: false, headers: { authorization: `Bearer ${api_key}`, ...headers } })
  }
})
