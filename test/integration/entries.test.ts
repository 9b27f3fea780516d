// Guarantee: a guest's folders are listed and changed, within limits, for its own organisation only.
import { expect, test } from 'vitest'
import { Stack } from '../stack.ts'

const entriesOf = (id: string, query = '') => `/v1/desktops/${id}/entries${query}`
const listOf = (id: string, path: string, more = '') => entriesOf(id, `?path=${encodeURIComponent(path)}${more}`)

test('a folder is listed page by page, and each change is seen at once', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const change = (body: object) => stack.api('POST', entriesOf(id), { body })
  const paths = async (path: string, more = '') => {
    const { status, json } = await stack.api('GET', listOf(id, path, more))
    expect(status).toBe(200)
    return json.entries.map((entry: { path: string }) => entry.path)
  }
  for (const name of ['c', 'a b', 'ü\n']) await stack.exec(id, `mkdir -p /srv/in; echo x > '/srv/in/${name}'`)
  expect(await paths('/srv/in/')).toEqual(['/srv/in/a b', '/srv/in/c', '/srv/in/ü\n'])
  expect(await paths('/srv', '&depth=2')).toEqual(['/srv/in', '/srv/in/a b', '/srv/in/c', '/srv/in/ü\n'])
  const page = await stack.api('GET', listOf(id, '/srv/in', '&limit=2'))
  expect(page.json.entries).toHaveLength(2)
  expect(await paths('/srv/in', `&limit=2&cursor=${page.json.next_cursor}`)).toEqual(['/srv/in/ü\n'])
  const { json } = await stack.api('GET', listOf(id, '/srv/in/c', '&depth=0'))
  expect(json).toMatchObject({ entries: [{ path: '/srv/in/c', type: 'file', size: 2 }], next_cursor: null })
  const made = await change({ action: 'mkdir', path: '/srv/new' })
  expect([made.status, made.json.entry.type]).toEqual([200, 'directory'])
  await change({ action: 'move', path: '/srv/in/c', to: '/srv/new/c' })
  await change({ action: 'copy', path: '/srv/new', to: '/srv/twice', recursive: true })
  expect(await paths('/srv/twice')).toEqual(['/srv/twice/c'])
  expect((await change({ action: 'chmod', path: '/srv/new/c', mode: '0600' })).status).toBe(200)
  expect((await change({ action: 'remove', path: '/srv/new', recursive: true })).json).toEqual({ entry: null })
  expect(await paths('/srv')).toEqual(['/srv/in', '/srv/twice'])
})

test('what the guest refuses has its code, and what cannot be is 400 with its field', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  await stack.exec(id, 'mkdir /srv/d; echo x > /srv/f; echo y > /srv/d/g')
  const codes: [body: object, status: number, code: string][] = [
    [{ action: 'move', path: '/srv/none', to: '/srv/x' }, 404, 'file_not_found'],
    [{ action: 'move', path: '/srv/f', to: '/srv/d/g' }, 409, 'file_exists'],
    [{ action: 'copy', path: '/srv/d', to: '/srv/x' }, 409, 'is_directory'],
    [{ action: 'remove', path: '/srv/d' }, 409, 'not_empty'],
    [{ action: 'mkdir', path: '/srv/f' }, 409, 'file_exists'],
  ]
  for (const [body, status, code] of codes) {
    const answer = await stack.api('POST', entriesOf(id), { body })
    expect([body, answer.status, answer.json.code]).toEqual([body, status, code])
  }
  stack.host.driver.faults.failNext('readFile', 1, 'permission_denied')
  expect((await stack.api('GET', listOf(id, '/srv'))).json.code).toBe('permission_denied')
  const wrong: [field: string, body: object][] = [
    ['action', { action: 'explode', path: '/x' }],
    ['path', { action: 'mkdir', path: 'srv' }],
    ['path', { action: 'mkdir', path: '/srv/../etc' }],
    ['path', { action: 'remove', path: '//', recursive: true }],
    ['to', { action: 'move', path: '/srv', to: '/srv/below' }],
    ['to', { action: 'copy', path: '/srv', to: '/srv/' }],
    ['mode', { action: 'chmod', path: '/srv', mode: 'rw' }],
  ]
  for (const [field, body] of wrong) {
    const answer = await stack.api('POST', entriesOf(id), { body })
    expect([body, answer.status, answer.json.field]).toEqual([body, 400, field])
  }
  for (const query of ['', '?path=srv', '?path=/a%00', '?path=/&depth=33', '?path=/&limit=0', '?path=/&cursor=%2b'])
    expect([query, (await stack.api('GET', entriesOf(id, query))).status]).toEqual([query, 400])
})
