import { describe, expect, onTestFinished, test } from 'vitest'
import { createClient } from './client.ts'
import { desktopId } from './testing/samples.ts'
import { problem, type Script, serve } from './testing/scripted-server.ts'

const clock = { now: () => 0, random: () => 0, sleep: async () => undefined }
const uploadId = '019a9f00-0000-7000-8000-0000000000aa'
const shown = (offset: number, complete = false) => ({ id: uploadId, path: '/x', complete, offset, length: 10 })

async function start(script: Script) {
  const server = await serve(script)
  onTestFinished(() => server[Symbol.asyncDispose]())
  return { client: createClient({ baseUrl: server.baseUrl, apiKey: 'svc_sk_test', clock }), seen: server.seen }
}

test('a file is sent in pieces, and goes on from where the guest is after each failure', async () => {
  const had: string[] = []
  let cuts = 0
  const { client, seen } = await start(({ method, headers, body }) => {
    if (method === 'POST') return { status: 201, body: shown(0) }
    if (method === 'GET') return { body: shown(had.join('').length) }
    const offset = Number(headers['upload-offset'])
    if (offset === 4 && cuts++ === 0) {
      had.push(String(body).slice(0, 2))
      return problem(503, 'guest_unavailable', 'cut')
    }
    had.push(String(body))
    return { body: shown(offset + String(body).length, headers['upload-complete'] === '?1') }
  })
  const progress: number[] = []
  const done = await client.upload(desktopId, '/x', '0123456789', {
    pieceBytes: 4,
    mode: '0600',
    onProgress: (offset) => progress.push(offset),
  })
  expect([done.complete, had.join(''), progress]).toEqual([true, '0123456789', [4, 6, 10]])
  expect([seen[0]!.query.get('mode'), seen[0]!.headers['upload-length']]).toEqual(['0600', '10'])
})

test('what cannot go on is given up, and what came is removed', async () => {
  const { client, seen } = await start(({ method }) => {
    if (method === 'POST') return { status: 201, body: shown(0) }
    if (method === 'DELETE') return { status: 204 }
    return problem(409, 'no_space', 'full')
  })
  await expect(client.upload(desktopId, '/x', '0123456789')).rejects.toMatchObject({ code: 'no_space' })
  expect(seen.map(({ method }) => method)).toEqual(['POST', 'PATCH', 'DELETE'])
})

test('without progress it ends after its retries', async () => {
  const { client, seen } = await start(({ method }) => {
    if (method === 'POST') return { status: 201, body: shown(0) }
    if (method === 'GET') return { body: shown(0) }
    return problem(503, 'guest_unavailable', 'away')
  })
  await expect(client.upload(desktopId, '/x', '0123456789', { retries: 2 })).rejects.toMatchObject({ status: 503 })
  expect(seen.filter(({ method }) => method === 'PATCH')).toHaveLength(3)
})

const mib = 1024 * 1024

/** A service with one file, of which one piece is cut after its half. */
async function taking(cutAt: number | undefined) {
  let held = Buffer.alloc(0)
  const asked: string[] = []
  const started = await start(({ method, headers, body, query }) => {
    asked.push(method)
    if (method === 'PUT') {
      held = Buffer.from(body ?? '')
      return { body: { path: '/srv/x', size: held.length } }
    }
    const now = (complete: boolean) => ({ ...shown(held.length, complete), path: '/srv/x' })
    if (method === 'POST') return { status: 201, body: { ...now(false), about: query.get('owner') } }
    if (method === 'GET') return { body: now(false) }
    const bytes = Buffer.from(body ?? '')
    const isCut = cutAt !== undefined && asked.filter((one) => one === 'PATCH').length === cutAt
    held = Buffer.concat([held, isCut ? bytes.subarray(0, bytes.length / 2) : bytes])
    return isCut ? problem(503, 'guest_unavailable', 'cut') : { body: now(headers['upload-complete'] === '?1') }
  })
  return { ...started, asked, held: () => held }
}

const streamOf = (bytes: Uint8Array<ArrayBuffer>) => {
  let at = 0
  return new ReadableStream<Uint8Array>({
    pull: (controller) => {
      controller.enqueue(bytes.subarray(at, at + 700_001))
      at += 700_001
      if (at >= bytes.length) controller.close()
    },
  })
}

describe.each([
  ['a string', (bytes: Uint8Array<ArrayBuffer>) => Buffer.from(bytes).toString('latin1')],
  ['bytes', (bytes: Uint8Array<ArrayBuffer>) => bytes],
  ['a buffer', (bytes: Uint8Array<ArrayBuffer>) => bytes.buffer],
  ['a blob', (bytes: Uint8Array<ArrayBuffer>) => new Blob([bytes])],
  ['a stream', streamOf],
])('%s', (_what, dataOf) => {
  test.each([
    ['as much as one request takes', 8 * mib, ['PUT']],
    ['more, with a cut', 8 * mib + 1, ['POST', 'PATCH', 'GET', 'PATCH']],
  ])('of %s is written whole', async (_size, size, requests) => {
    const bytes = new Uint8Array(Buffer.alloc(size, '0123456789abc'))
    const { client, asked, held } = await taking(requests.includes('GET') ? 1 : undefined)
    const done = await client.writeFile(desktopId, 'srv/x', dataOf(bytes), { owner: 'dev' })
    expect([done, asked, held().equals(bytes)]).toEqual([{ path: '/srv/x', size }, requests, true])
  })
})
