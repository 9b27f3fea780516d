import { desktopId } from '@dormouse/client/testing/samples'
import { expect, test } from 'vitest'
import { start } from '../testing/process.ts'

const made = {
  id: '019a9f00-0000-7000-8000-0000000000cc',
  path: '/srv/a b.txt',
  method: 'PUT',
  max_bytes: 1_000,
  once: true,
  state: 'active',
  made_by: 'key:x',
  created_at: '2026-11-02T09:30:00.000Z',
  expires_at: '2026-11-02T10:00:00.000Z',
  uses: 0,
  last_used_at: null,
}
const url = `https://dormouse.example/files/${made.id}/token`

test('a URL is printed alone, so that it can be handed to another program', async () => {
  const { dormouse, seen } = await start(() => ({ status: 201, body: { ...made, url } }))
  const options = ['--put', '--once', '--expires', '30m', '--max-bytes', '1000']
  const { code, stdout, stderr } = await dormouse(['url', desktopId, 'srv/a b.txt', ...options])
  expect([code, stdout]).toEqual([0, `${url}\n`])
  expect(stderr).toContain(`Writes /srv/a b.txt once, until ${made.expires_at}.`)
  expect(JSON.parse(String(seen[0]!.body))).toEqual({
    path: '/srv/a b.txt',
    method: 'PUT',
    once: true,
    expires_in_secs: 1_800,
    max_bytes: 1_000,
  })
})

test('URLs are listed, after one was ended where that is wanted', async () => {
  const { dormouse, seen } = await start(({ method }) =>
    method === 'DELETE' ? { status: 204 } : { body: { file_urls: [{ ...made, state: 'revoked' }] } },
  )
  const { code, stdout } = await dormouse(['urls', desktopId, '--revoke', made.id])
  expect([code, stdout.split('\n')[1]]).toEqual([
    0,
    `${made.id}  PUT     revoked  0 of 1  ${made.expires_at}  /srv/a b.txt`,
  ])
  expect(seen.map(({ method }) => method)).toEqual(['DELETE', 'GET'])
})
