import { desktop, desktopId } from '@dormouse/client/testing/samples'
import { expect, test } from 'vitest'
import { start } from '../testing/process.ts'

const entry = (path: string, more = {}) => ({
  path,
  exact_path: true,
  type: 'file',
  size: 5,
  mode: '0644',
  uid: 0,
  gid: 1000,
  modified_at: '2026-11-02T09:30:00.000Z',
  target: null,
  ...more,
})

test('a folder is listed to its end, and no name changes the terminal', async () => {
  const pages = [
    { entries: [entry('/srv/a b'), entry('/srv/two\nlines\x1b[2J')], next_cursor: 'abc' },
    { entries: [entry('/srv/z', { type: 'link', target: 'a b' })], next_cursor: null },
  ]
  const { dormouse, seen } = await start((_request, turn) => ({ body: pages[turn % 2]! }))
  const { code, stdout } = await dormouse(['ls', '--depth', '2', `${desktopId}:srv`])
  expect([code, stdout.split('\n').slice(1)]).toEqual([
    0,
    [
      '-0644  0:1000  5     2026-11-02T09:30:00.000Z  /srv/a b',
      '-0644  0:1000  5     2026-11-02T09:30:00.000Z  "/srv/two\\nlines\\u001b[2J"',
      'l0644  0:1000  5     2026-11-02T09:30:00.000Z  /srv/z -> a b',
      '',
    ],
  ])
  expect(seen.map(({ query }) => [query.get('path'), query.get('depth'), query.get('cursor')])).toEqual([
    ['/srv', '2', null],
    ['/srv', '2', 'abc'],
  ])
})

test('without a folder it lists desktops, and anything else is refused', async () => {
  const { dormouse } = await start(() => ({ body: { desktops: [desktop()] } }))
  expect((await dormouse(['ls'])).stdout).toContain(desktopId)
  const notPlace = { code: 2, stderr: expect.stringContaining('<id>:<path>') as unknown }
  expect(await dormouse(['ls', './local:/srv'])).toMatchObject(notPlace)
  const unknown = { code: 3, stderr: expect.stringContaining('no desktop has the name') as unknown }
  expect(await dormouse(['ls', 'No place'])).toMatchObject(unknown)
})

test.each([desktopId, `${desktopId}:`, `${desktopId}:/`])('%s is the root of its desktop', async (place) => {
  const { dormouse, seen } = await start(() => ({ body: { entries: [entry('/srv')], next_cursor: null } }))
  expect((await dormouse(['ls', place])).code).toBe(0)
  expect(seen.map(({ query }) => query.get('path'))).toEqual(['/'])
})
