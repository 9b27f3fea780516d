// Guarantee: a folder goes into a guest and out of it as one archive, whole or not at all, whatever its callers do on the way.
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { type IncomingMessage, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { createClient } from '@dormouse/client'
import { newId } from '@dormouse/contract'
import { afterAll, expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'

const mib = 1024 * 1024
const top = mkdtempSync(join(tmpdir(), 'archives-'))
afterAll(() => rmSync(top, { recursive: true }))
const site = join(top, 'site')
mkdirSync(join(site, 'deep/er'), { recursive: true })
mkdirSync(join(site, 'empty'))
const large = randomBytes(9 * mib)
writeFileSync(join(site, 'deep/large'), large)
writeFileSync(join(site, 'deep/er/Grüße\n'), 'text')
writeFileSync(join(site, 'none'), '')
const packed = (folder: string) => execFileSync('tar', ['-cf', '-', '-C', folder, '.'], { maxBuffer: 64 * mib })
/** Larger than one request of the other routes. */
const archive = packed(site)
const small = packed(join(site, 'deep/er'))

const archiveOf = (id: string, path: string) => `/v1/desktops/${id}/archives/${path}`
const put = (stack: Stack, id: string, path: string, body: Buffer) => stack.api('PUT', archiveOf(id, path), { body })

/** A request whose body the test sends, or whose response it reads, as it likes. */
function open(stack: Stack, method: string, path: string, headers: Record<string, string> = {}) {
  const { hostname, port } = new URL(stack.url)
  const authorization = `Bearer ${stack.org.key}`
  const options = { host: hostname, port, method, path, agent: false, headers: { authorization, ...headers } }
  return request(options).on('error', () => undefined)
}

const names = async (stack: Stack, id: string) =>
  (await stack.api('GET', `/v1/desktops/${id}/entries?path=/srv&depth=9`)).json.entries.map(
    ({ path }: { path: string }) => path,
  )

test('a folder comes out as it went in, and what was there before stays', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  await stack.exec(id, 'mkdir -p /srv/site/deep; echo kept > /srv/site/kept; echo old > /srv/site/deep/large')
  const written = await put(stack, id, 'srv/site/', archive)
  expect([written.status, written.json]).toEqual([200, { path: '/srv/site', size: archive.length }])
  const client = createClient({ baseUrl: stack.url, apiKey: stack.org.key })
  const back = Buffer.from(await new Response(await client.readArchive(id, '/srv/site')).arrayBuffer())
  const to = join(top, 'back')
  mkdirSync(to)
  execFileSync('tar', ['-xf', '-', '-C', to], { input: back })
  writeFileSync(join(site, 'kept'), 'kept\n')
  expect(execFileSync('diff', ['-r', site, to]).toString()).toBe('')
  rmSync(join(site, 'kept'))
  expect(await client.writeArchive(id, '/srv/copy', archive)).toEqual({ path: '/srv/copy', size: archive.length })
  expect(await client.readFile(id, '/srv/copy/deep/er/Grüße\n', { format: 'text' })).toBe('text')
  await waitFor('the channels to go', () => stack.channels === 0 && stack.host.channels === 0)
})

test('what is no archive, or only the beginning of one, is 400, and nothing of it is written', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const bodies = [Buffer.alloc(0), Buffer.from('text'), small.subarray(0, 512 * 3), gzipSync(small)]
  for (const body of [...bodies, Buffer.alloc(5_000, 'x')]) {
    const { status, json } = await put(stack, id, 'srv/x', body)
    expect([body.length, status, json.field, json.detail]).toEqual([
      body.length,
      400,
      'body',
      'body: must be a whole tar archive, and not compressed',
    ])
  }
  expect(await names(stack, id)).toEqual([])
})

test('a path that climbs is 400, a file where the folder should be 409, what is missing 404', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  await stack.exec(id, 'echo x > /srv/file')
  for (const path of ['../x', 'a/..', 'a%2f..%2fb', 'a%00b', '%252e%252e/x']) {
    for (const method of ['PUT', 'GET']) {
      const { status, json } = await stack.api(
        method,
        archiveOf(newId(), path),
        method === 'PUT' ? { body: small } : {},
      )
      expect([path, method, status, json.field]).toEqual([path, method, 400, 'path'])
    }
  }
  expect((await stack.api('PUT', `${archiveOf(id, 'x')}?owner=no%20user`, { body: small })).json.field).toBe('owner')
  expect((await put(stack, id, 'srv/file', small)).json).toMatchObject({
    status: 409,
    code: 'not_directory',
    detail: expect.stringMatching(/^\/srv\/file: /),
  })
  expect((await put(stack, id, 'srv/file/below', small)).json.code).toBe('not_directory')
  expect((await stack.api('GET', archiveOf(id, 'srv/file'))).json.code).toBe('not_directory')
  expect((await stack.api('GET', archiveOf(id, 'srv/none'))).json.code).toBe('file_not_found')
  for (const code of ['no_space', 'archive_unsupported'] as const) {
    stack.host.driver.faults.failNext('writeFile', 1, code)
    expect((await put(stack, id, 'srv/x', small)).json).toMatchObject({ status: 409, code })
  }
  expect(await names(stack, id)).toEqual(['/srv/file'])
})

test('a desktop that is not awake is 409, a host that is away 503', async () => {
  await using stack = await Stack.start()
  const asleep = await stack.desktop('hibernated')
  const { id } = await stack.desktop('awake')
  const both = async (of: string) => [
    (await put(stack, of, 'srv/x', small)).json.code,
    (await stack.api('GET', archiveOf(of, 'srv'))).json.code,
  ]
  expect(await both(asleep.id)).toEqual(['not_awake', 'not_awake'])
  await stack.killAgent()
  expect(await both(id)).toEqual(['host_unreachable', 'host_unreachable'])
})

test('a folder that is cut on its way in, by its caller or by a sleep, is not there, nor a part of it', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const sent = open(stack, 'PUT', archiveOf(id, 'srv/x'), { 'content-length': String(small.length) })
  // To the end of an entry, which a tar takes for the end of an archive.
  sent.write(small.subarray(0, 512 * 3))
  await waitFor('the transfer to begin', () => stack.channels > 0)
  sent.destroy()
  await waitFor('the channels to go', () => stack.channels === 0 && stack.host.channels === 0)
  stack.host.driver.faults.hang('writeFile')
  const stuck = put(stack, id, 'srv/x', small)
  await waitFor('the transfer to hang', () => stack.channels > 0)
  await stack.ask(id, 'hibernate')
  // As far as the sleep has come by then.
  expect(['not_awake', 'guest_unavailable']).toContain((await stuck).json.code)
  await stack.ask(id, 'wake')
  expect(await names(stack, id)).toEqual([])
})

test('a folder that is cut on its way out never ends as a whole one, and a caller who leaves ends it', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  await put(stack, id, 'srv/x', archive)
  const reading = async () => {
    const asked = open(stack, 'GET', archiveOf(id, 'srv/x')).end()
    const [response] = (await once(asked, 'response')) as [IncomingMessage]
    response.on('error', () => undefined)
    await once(response, 'readable')
    return response
  }
  ;(await reading()).destroy()
  await waitFor('the channels to go', () => stack.channels === 0 && stack.host.channels === 0)
  const cut = await reading()
  await stack.ask(id, 'hibernate')
  cut.resume()
  await waitFor('the response to end', () => cut.closed)
  expect(cut.complete).toBe(false)
})
