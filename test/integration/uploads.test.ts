// Guarantee: an upload goes on after whatever interrupted it, and its file is there whole or not at all.
import { randomBytes } from 'node:crypto'
import { connect } from 'node:net'
import { expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'

const bytes = randomBytes(300_000)
const uploadsOf = (id: string, path = '/srv/in/big') => `/v1/desktops/${id}/uploads?path=${encodeURIComponent(path)}`
const digest = async (stack: Stack, id: string) =>
  Buffer.from(
    await (
      await fetch(`${stack.url}/v1/desktops/${id}/files/srv/in/big`, {
        headers: { authorization: `Bearer ${stack.org.key}` },
      })
    ).arrayBuffer(),
  ).equals(bytes)

async function begin(stack: Stack, id: string, headers: Record<string, string> = {}) {
  const begun = await stack.api('POST', uploadsOf(id), { headers })
  expect([begun.status, begun.headers['upload-offset'], begun.headers['upload-complete']]).toEqual([201, '0', '?0'])
  const at = begun.headers.location as string
  const patch = (from: number, to: number, complete = to === bytes.length) =>
    stack.api('PATCH', at, {
      body: bytes.subarray(from, to),
      headers: { 'upload-offset': String(from), 'upload-complete': complete ? '?1' : '?0' },
    })
  const offset = async () => {
    const answer = await stack.api('HEAD', at)
    expect([answer.status, answer.headers['cache-control']]).toEqual([200, 'no-store'])
    return Number(answer.headers['upload-offset'])
  }
  return { at, patch, offset }
}

test('parts make a whole file, a wrong offset says the right one, and the end is known afterwards', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const { at, patch, offset } = await begin(stack, id)
  expect((await patch(0, 100_000)).json).toMatchObject({ offset: 100_000, complete: false, path: '/srv/in/big' })
  const wrong = await patch(0, 50_000)
  expect([wrong.status, wrong.json.code, wrong.headers['upload-offset']]).toEqual([409, 'upload_offset', '100000'])
  expect((await stack.api('GET', `/v1/desktops/${id}/files/srv/in/big`)).status).toBe(404)
  expect(await offset()).toBe(100_000)
  const { status, headers } = await patch(100_000, bytes.length)
  expect([status, headers['upload-complete'], headers['upload-offset']]).toEqual([200, '?1', '300000'])
  expect(await digest(stack, id)).toBe(true)
  expect((await stack.api('GET', at)).json).toMatchObject({ complete: true, offset: 300_000, length: 300_000 })
  expect((await patch(300_000, 300_000)).status).toBe(409)
  const once = await stack.api('POST', uploadsOf(id, '/srv/in/once'), {
    body: 'whole',
    headers: { 'upload-complete': '?1' },
  })
  expect([once.status, once.json.complete, (await stack.exec(id, 'cat /srv/in/once')).json.stdout]).toEqual([
    201,
    true,
    'whole',
  ])
})

test('what came before a cut is kept, over an agent’s death and a sleep', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const { at, patch, offset } = await begin(stack, id, { 'upload-length': String(bytes.length) })
  const socket = connect(Number(new URL(stack.url).port), '127.0.0.1')
  socket.write(
    `PATCH ${at} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${stack.org.key}\r\nUpload-Offset: 0\r\nUpload-Complete: ?1\r\nContent-Length: 300000\r\n\r\n`,
  )
  socket.write(bytes.subarray(0, 150_000))
  await waitFor('the guest to get some', () => (stack.host.driver.faults.counts.writeFile ?? 0) > 2)
  socket.destroy()
  await waitFor('the channel to go', () => stack.channels === 0)
  const kept = await offset()
  expect(kept).toBeLessThanOrEqual(150_000)
  await stack.ask(id, 'hibernate')
  expect((await patch(kept, 200_000)).json.code).toBe('not_awake')
  await stack.ask(id, 'wake')
  expect((await patch(kept, 200_000)).status).toBe(200)
  await stack.killAgent()
  expect((await patch(200_000, bytes.length)).json.code).toBe('host_unreachable')
  await stack.restartAgent()
  expect(await offset()).toBe(200_000)
  expect((await patch(200_000, bytes.length)).json.complete).toBe(true)
  expect(await digest(stack, id)).toBe(true)
})

test('a file that was placed although the answer was lost is not placed again', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const { at, patch } = await begin(stack, id)
  await patch(0, 200_000)
  // The control plane dies between the guest's answer and its own note.
  await patch(200_000, bytes.length)
  await stack.database.rows(`update uploads set state = 'placing'`)
  await stack.exec(id, 'echo newer > /srv/in/other')
  expect((await stack.api('GET', at)).json).toMatchObject({ complete: true, offset: 300_000 })
  expect(await stack.database.rows('select state from uploads')).toEqual([{ state: 'complete' }])
  expect(await digest(stack, id)).toBe(true)
})

test('uploads are bounded, end when they are deleted or expire, and leave nothing in the guest', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const { at, patch } = await begin(stack, id)
  await patch(0, 1_000)
  for (let i = 1; i < 16; i++) expect((await stack.api('POST', uploadsOf(id, `/srv/in/${i}`))).status).toBe(201)
  const above = await stack.api('POST', uploadsOf(id, '/srv/in/17'))
  expect([above.status, above.json.code]).toEqual([409, 'conflict'])
  expect((await stack.api('DELETE', at)).status).toBe(204)
  expect((await stack.api('HEAD', at)).status).toBe(404)
  await stack.database.rows(`update uploads set expires_at = now() - interval '1 second'`)
  await stack.replica.parts.uploads.prune()
  expect(await stack.database.rows('select * from uploads')).toEqual([])
  const left = await stack.api('GET', `/v1/desktops/${id}/entries?path=/srv&depth=2`)
  expect(left.json.entries.filter(({ path }: { path: string }) => path.includes('dormouse'))).toEqual([])
})

test('what is wrong with a request has its field, and what the guest refuses its code', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const wrong: [field: string, method: string, path: string, headers: Record<string, string>][] = [
    ['path', 'POST', uploadsOf(id, 'srv'), {}],
    ['path', 'POST', uploadsOf(id, '/'), {}],
    ['Upload-Complete', 'POST', uploadsOf(id), { 'upload-complete': 'yes' }],
    ['Upload-Length', 'POST', uploadsOf(id), { 'upload-length': '-1' }],
    ['Upload-Offset', 'PATCH', `/v1/desktops/${id}/uploads/${id}`, { 'upload-complete': '?0' }],
    ['Upload-Complete', 'PATCH', `/v1/desktops/${id}/uploads/${id}`, { 'upload-offset': '0' }],
  ]
  for (const [field, method, path, headers] of wrong) {
    const answer = await stack.api(method, path, { headers })
    expect([path, headers, answer.status, answer.json.field]).toEqual([path, headers, 400, field])
  }
  expect((await stack.api('POST', uploadsOf(id, '/srv'))).json.code).toBe('is_directory')
  expect(await stack.database.rows('select * from uploads')).toEqual([])
  const { at, patch } = await begin(stack, id, { 'upload-length': '10' })
  expect((await patch(0, 5, true)).json.field).toBe('Upload-Length')
  expect((await stack.api('GET', at)).json.offset).toBe(5)
})

test('an upload that the guest’s file system refuses, or whose client never knew it, leaves nothing', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const entries = async () =>
    (await stack.api('GET', `/v1/desktops/${id}/entries?path=/srv&depth=2`)).json.entries.map(
      ({ path }: { path: string }) => path,
    )
  const { at, patch } = await begin(stack, id)
  expect((await patch(0, 1_000)).status).toBe(200)
  stack.host.driver.faults.failNext('writeFile', 1, 'no_space')
  const full = await patch(1_000, 2_000)
  expect([full.status, full.json.code, full.json.detail]).toEqual([
    409,
    'no_space',
    expect.stringMatching(/^\/srv\/in\/big: /),
  ])
  expect([(await stack.api('HEAD', at)).status, await entries()]).toEqual([404, ['/srv/in']])
  const wrong = { 'upload-length': '3', 'upload-complete': '?1' }
  expect(
    (await stack.api('POST', uploadsOf(id), { body: 'two', headers: { ...wrong, 'upload-length': '5' } })).status,
  ).toBe(400)
  expect(await entries()).toEqual(['/srv/in'])
  expect(await stack.database.rows('select * from uploads')).toEqual([])
  expect((await stack.api('POST', uploadsOf(id), { body: 'two', headers: wrong })).status).toBe(201)
  expect(await entries()).toEqual(['/srv/in', '/srv/in/big'])
})

test('to whom a file shall belong is checked, and kept for its upload', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  for (const owner of ['root', '0', 'root:root', '0:0'])
    expect((await stack.api('POST', `${uploadsOf(id)}&owner=${owner}`)).status).toBe(201)
  expect(await stack.database.rows('select owner from uploads order by id')).toHaveLength(4)
  expect(await stack.database.rows('select owner from uploads order by id limit 1')).toEqual([{ owner: 'root' }])
  for (const owner of ['', '-R', 'a b', ':', 'a:', "x';reboot"]) {
    const field = (answer: { status: number; json: { field?: string } }) => [owner, answer.status, answer.json.field]
    const encoded = encodeURIComponent(owner)
    expect(field(await stack.api('POST', `${uploadsOf(id)}&owner=${encoded}`))).toEqual([owner, 400, 'owner'])
    const put = await stack.api('PUT', `/v1/desktops/${id}/files/srv/x?owner=${encoded}`, { body: 'x' })
    expect(field(put)).toEqual([owner, 400, 'owner'])
  }
})

test('expired uploads of guests that are silent hold up no others', async () => {
  await using stack = await Stack.start()
  const silent = [await stack.desktop('awake'), await stack.desktop('awake')]
  const answering = await stack.desktop('awake')
  for (const { id } of silent)
    for (let i = 0; i < 16; i++) expect((await stack.api('POST', uploadsOf(id, `/srv/in/${i}`))).status).toBe(201)
  expect((await stack.api('POST', uploadsOf(answering.id))).status).toBe(201)
  await stack.database.rows(`update uploads set expires_at = now() - interval '1 minute'`)
  await stack.database.rows(`update uploads set expires_at = now() - interval '1 second' where desktop_id = $1`, [
    answering.id,
  ])
  for (const { id } of silent) stack.host.driver.faults.silentGuests.add(id as never)
  await stack.replica.parts.uploads.prune()
  const left = await stack.database.rows('select desktop_id, count(*)::int from uploads group by 1')
  expect(left.map(({ desktop_id }) => desktop_id).sort()).toEqual(silent.map(({ id }) => id).sort())
  expect(left.map(({ count }) => count)).toEqual([16, 16])
})
