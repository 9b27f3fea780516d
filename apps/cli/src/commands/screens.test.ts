import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { desktopId } from '@dormouse/client/testing/samples'
import { expect, test } from 'vitest'
import { folder, start } from '../testing/process.ts'

const stream = {
  url: `http://x/screens/${desktopId}/control#t`,
  websocket_url: `ws://x/screens/${desktopId}/control/t`,
  expires_at: '2026-01-02T03:04:05.678Z',
  claim: 'control',
}

test('open claims control, or a look, and prints the URL alone on stdout', async () => {
  const { dormouse, seen } = await start(() => ({ body: stream }))
  const { code, stdout, stderr } = await dormouse(['open', desktopId, '--no-browser'])
  expect({ code, stdout }).toEqual({ code: 0, stdout: `${stream.url}\n` })
  expect(stderr).toContain(stream.expires_at)
  await dormouse(['open', desktopId, '--view', '--takeover', '--json'])
  expect(seen.map(({ body }) => JSON.parse(String(body)))).toEqual([
    { claim: 'control' },
    { claim: 'view', takeover: true },
  ])
})

test('screenshot writes the picture where it is told, and says where', async () => {
  const { dormouse } = await start(() => ({ body: 'a picture' }))
  const file = join(folder(), 'screen.png')
  expect(await dormouse(['screenshot', desktopId, file])).toMatchObject({ code: 0, stdout: `${file}\n` })
  expect(readFileSync(file, 'utf8')).toBe('a picture')
  expect((await dormouse(['screenshot', desktopId, '-'])).stdout).toBe('a picture')
})
