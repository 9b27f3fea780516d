// Guarantee: a fetched image is here whole and verified, or not at all; whatever the server does, the fetch ends, and writes no
// more than the manifest says.
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ArmedFailpoints, createLog } from '@dormouse/process'
import { badAnswers, badBodies, RawServer } from '@dormouse/process/testing/raw-server'
import { expect, test } from 'vitest'
import { ImageServer } from '../testing/image-server.ts'
import { ImageFetcher } from './fetcher.ts'
import type { ProgressLimits } from './progress-deadline.ts'
import { ImageStore } from './store.ts'

const patient: ProgressLimits = { silenceMs: 60_000, windowMs: 60_000, minBytesPerWindow: 1, maxPauseMs: 1 }
const soonSilent: ProgressLimits = { ...patient, silenceMs: 50 }
const soonSlow: ProgressLimits = { ...patient, windowMs: 400, minBytesPerWindow: 10_000 }
const never = new AbortController().signal
const log = createLog({ name: 'images', level: 'silent' })

async function host() {
  const folder = await mkdtemp(join(tmpdir(), 'dormouse-fetch-'))
  const store = new ImageStore({ given: undefined, fetched: join(folder, 'images') })
  const failpoints = new ArmedFailpoints()
  const makeFetcher = (limits: ProgressLimits = patient) =>
    new ImageFetcher({ store, makeSpace: async () => false, failpoints, log, limits })
  return {
    store,
    failpoints,
    folder,
    makeFetcher,
    names: async () => (await readdir(store.fetchedDir).catch(() => [])).sort(),
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }),
  }
}

test('an image is fetched once, by however many ask for it, and each sees the progress', async () => {
  await using server = await ImageServer.start()
  await using at = await host()
  const fetcher = at.makeFetcher()
  const seen: number[] = []
  const ref = server.ref()
  const asking = [1, 2, 3].map(() => fetcher.ensure(ref, never, (done) => seen.push(done)))
  const [image] = await Promise.all(asking)
  expect(await readFile(image!.disk)).toEqual(server.files.get('disk.qcow2'))
  expect(server.requests).toEqual(['manifest.json 0', 'vmlinuz 0', 'initrd 0', 'disk.qcow2 0'])
  expect(Math.max(...seen)).toBe(ref.bytes)
  expect(await at.names()).toEqual(['mini@1'])
  expect(fetcher.states()).toEqual([])
  await fetcher.ensure(ref, never)
  expect(server.requests).toHaveLength(4)
})

test('an image comes from a folder on the host as well, but not through a link out of it', async () => {
  await using server = await ImageServer.start()
  await using at = await host()
  const shared = join(at.folder, 'shared')
  await mkdir(shared)
  for (const [name, bytes] of server.files) await writeFile(join(shared, name), bytes)
  await at.makeFetcher().ensure(server.ref({ source: shared }), never)
  expect(await at.names()).toEqual(['mini@1'])
  await rm(at.store.fetchedDir, { recursive: true })
  await rm(join(shared, 'initrd'))
  await symlink('/etc/passwd', join(shared, 'initrd'))
  await expect(at.makeFetcher().ensure(server.ref({ source: shared }), never)).rejects.toThrow(/initrd/)
})

test('a connection that is cut is continued where it ended', async () => {
  await using server = await ImageServer.start()
  await using at = await host()
  let cuts = 0
  server.instead = (file, from) => {
    const bytes = server.files.get(file)!
    if (file !== 'disk.qcow2' || cuts === 3) return undefined
    cuts++
    return (_request, response) => {
      response.writeHead(from ? 206 : 200, { 'content-range': `bytes ${from}-`, 'content-length': bytes.length - from })
      response.write(bytes.subarray(from, from + 100_000), () => response.destroy())
    }
  }
  const image = await at.makeFetcher().ensure(server.ref(), never)
  expect(await readFile(image.disk)).toEqual(server.files.get('disk.qcow2'))
  expect(server.requests.filter((request) => request.startsWith('disk')).at(-1)).not.toBe('disk.qcow2 0')
})

test.each([
  'image.after-manifest',
  'image.during-file',
  'image.after-file',
  'image.before-rename',
  'image.after-rename',
])('an agent that dies at "%s" leaves no half image, and the next one continues', async (point) => {
  await using server = await ImageServer.start()
  await using at = await host()
  at.failpoints.set(point, 'throw')
  await expect(at.makeFetcher().ensure(server.ref(), never)).rejects.toThrow(point)
  const before = point === 'image.after-rename' ? ['mini@1'] : []
  expect(await at.store.list()).toEqual(before)
  at.failpoints.set(point, undefined)
  server.requests.length = 0
  const image = await at.makeFetcher().ensure(server.ref(), never)
  expect(await readFile(image.disk)).toEqual(server.files.get('disk.qcow2'))
  expect(await at.names()).toEqual(['mini@1'])
  if (point === 'image.during-file') expect(server.requests).not.toContain('vmlinuz 0')
  if (point === 'image.before-rename') expect(server.requests).toEqual(['manifest.json 0'])
})

test('bytes that an earlier try has left damaged are fetched again', async () => {
  await using server = await ImageServer.start()
  await using at = await host()
  at.failpoints.set('image.during-file', 'throw@3')
  await expect(at.makeFetcher().ensure(server.ref(), never)).rejects.toThrow('failpoint')
  const [partial] = await at.names()
  await writeFile(join(at.store.fetchedDir, partial!, 'disk.qcow2'), Buffer.alloc(10_000))
  const image = await at.makeFetcher().ensure(server.ref(), never)
  expect(await readFile(image.disk)).toEqual(server.files.get('disk.qcow2'))
})

const answers = (status: number, headers: Record<string, string | number>, body: Buffer | string = '') => {
  return (_request: unknown, response: import('node:http').ServerResponse) =>
    void response.writeHead(status, headers).end(body)
}

test.each<[what: string, instead: NonNullable<ImageServer['instead']>, why: RegExp]>([
  [
    'sends other bytes',
    (file) => (file === 'disk.qcow2' ? answers(200, {}, Buffer.alloc(1_000_000)) : undefined),
    /SHA-256 of disk/,
  ],
  [
    'sends more than the manifest says',
    (file) => (file === 'initrd' ? answers(200, {}, Buffer.alloc(3_000)) : undefined),
    /larger than the 2000 bytes/,
  ],
  [
    'sends another manifest',
    (file) => (file === 'manifest.json' ? answers(200, {}, '{}') : undefined),
    /was registered with/,
  ],
  [
    'sends an endless manifest',
    (file) => (file === 'manifest.json' ? answers(200, {}, Buffer.alloc(3_000_000)) : undefined),
    /manifest.json is larger/,
  ],
  ['redirects to another scheme', () => answers(302, { location: 'file:///etc/passwd' }), /redirects to file:/],
  ['redirects in a circle', (file) => answers(302, { location: `/${file}` }), /more than 5 times/],
  ['compresses', () => answers(200, { 'content-encoding': 'gzip' }, 'x'), /compressed/],
  ['has no such file', (file) => (file === 'vmlinuz' ? answers(404, {}) : undefined), /vmlinuz answered 404/],
  ['says nothing', (file) => (file === 'vmlinuz' ? () => undefined : undefined), /vmlinuz/],
  ['is out of order', () => answers(503, {}), /answered 503/],
  [
    'closes each connection',
    (file) =>
      file === 'disk.qcow2' ? (request: import('node:http').IncomingMessage) => void request.destroy() : undefined,
    /disk.qcow2/,
  ],
])('a server that %s ends the fetch with a reason, and leaves no image', async (_what, instead, why) => {
  await using server = await ImageServer.start()
  await using at = await host()
  server.instead = instead
  const fetcher = at.makeFetcher(soonSilent)
  await expect(fetcher.ensure(server.ref(), never)).rejects.toThrow(why)
  expect(await at.store.list()).toEqual([])
  expect(fetcher.states()).toMatchObject([{ image: 'mini@1', state: 'failed', why: expect.stringMatching(why) }])
})

test('a server that sends a byte now and then does not hold the fetch', async () => {
  await using server = await ImageServer.start()
  await using at = await host()
  server.instead = (file) => {
    if (file !== 'disk.qcow2') return undefined
    return (_request, response) => {
      const drip = setInterval(() => response.write('x'), 10)
      response.on('close', () => clearInterval(drip))
    }
  }
  await expect(at.makeFetcher(soonSlow).ensure(server.ref(), never)).rejects.toThrow(/too slowly/)
})

test.each([
  ['leaves the folder', { kernel: { file: '../vmlinuz', size: 1, sha256: 'a'.repeat(64) } }, /plain file name/],
  ['is hidden', { kernel: { file: '.vmlinuz', size: 1, sha256: 'a'.repeat(64) } }, /plain file name/],
  ['has no digests', { kernel: { file: 'vmlinuz' } }, /kernel/],
  ['names a file twice', { kernel: { file: 'initrd', size: 1, sha256: 'a'.repeat(64) } }, /different names/],
  ['is too large', { kernel: { file: 'vmlinuz', size: 2 ** 50, sha256: 'a'.repeat(64) } }, /kernel.size/],
  ['lacks a command line', { cmdline: 7 }, /lacks/],
])('a manifest that %s is refused before anything else is fetched', async (_what, more, why) => {
  await using server = await ImageServer.start(1_000, more)
  await using at = await host()
  await expect(at.makeFetcher().ensure(server.ref(), never)).rejects.toThrow(why)
  expect(server.requests).toEqual(['manifest.json 0'])
})

test('an image that is larger than the disk is not begun', async () => {
  const size = 2 ** 39
  await using server = await ImageServer.start(1_000, {
    disk: { file: 'disk.qcow2', size, sha256: 'a'.repeat(64), virtual_size_bytes: 1 },
  })
  await using at = await host()
  await expect(at.makeFetcher().ensure(server.ref({ bytes: size }), never)).rejects.toThrow(/free bytes/)
  expect(server.requests).toEqual([])
})

test('who no longer waits leaves the fetch to go on', async () => {
  await using server = await ImageServer.start()
  await using at = await host()
  const fetcher = at.makeFetcher()
  const leaving = new AbortController()
  const left = fetcher.ensure(server.ref(), leaving.signal)
  leaving.abort(new Error('superseded'))
  await expect(left).rejects.toThrow('superseded')
  await fetcher.ensure(server.ref(), never)
  expect(server.requests.filter((request) => request === 'manifest.json 0')).toHaveLength(1)
})

test.each(Object.entries({ ...badAnswers, ...badBodies }))(
  'a server that answers with %s ends its own fetch, and holds no place',
  async (_, answer) => {
    await using server = await ImageServer.start()
    await using evil = await RawServer.start(answer)
    await using at = await host()
    const fetcher = at.makeFetcher({ ...patient, silenceMs: 2_000 })
    // Two are fetched at once.
    const bad = ['one', 'two'].map((name) => fetcher.ensure(server.ref({ name, source: evil.url }), never))
    for (const { status } of await Promise.allSettled(bad)) expect(status).toBe('rejected')
    await fetcher.ensure(server.ref(), never)
    expect(await at.names()).toContain('mini@1')
    await expect.poll(() => evil.open).toBe(0)
  },
)

test('another protocol in the middle of an image is an end of its connection', async () => {
  await using server = await ImageServer.start(10_000)
  await using at = await host()
  let switched = 0
  await using proxy = await RawServer.start((socket, head) => {
    const file = /^GET \/(\S*)/.exec(head)![1]!
    const bytes = server.files.get(file)!
    if (file === 'vmlinuz' && switched++ < 3) badAnswers['another protocol']!(socket, head)
    else socket.end(Buffer.concat([Buffer.from(`HTTP/1.1 200 OK\r\nContent-Length: ${bytes.length}\r\n\r\n`), bytes]))
  })
  await at.makeFetcher().ensure(server.ref({ source: proxy.url }), never)
  expect([switched, await at.names()]).toEqual([4, ['mini@1']])
})
