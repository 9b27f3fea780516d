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

test('screenshot asks for a part, a size and a format by the file’s name, and waits', async () => {
  const { dormouse, seen } = await start(() => ({ body: 'a picture', headers: { 'dormouse-screen-changed': 'false' } }))
  const file = join(folder(), 'part.JPG')
  const wanted = ['--region', '0,0,640,400', '--fit', '320', '--wait', 'changed', '--after', 'abc', '--max-ms', '60']
  const { code, stderr } = await dormouse(['screenshot', desktopId, file, ...wanted])
  expect(code).toBe(0)
  expect(stderr).toContain('has not changed')
  expect(seen[0]!.query.toString()).toBe(
    'fit=320&wait=changed&after=abc&format=jpeg&region=0%2C0%2C640%2C400&max_ms=60',
  )
  expect((await dormouse(['screenshot', desktopId, '--region', '1,2,3'])).stderr).toContain('four whole numbers')
})

test('screen shows size, pointer and holder', async () => {
  const claim = { holder: 'key_1', since: null, until: '2026-01-02T03:04:05.678Z', human_active: true }
  const screen = { width: 1280, height: 800, sequence: 'abc', pointer: { x: 5, y: 6 }, claim }
  const { dormouse } = await start(() => ({ body: screen }))
  const { stdout } = await dormouse(['screen', desktopId])
  for (const part of ['1280 × 800', '5,6', 'key_1, a person', 'abc']) expect(stdout).toContain(part)
})

test('screenshot writes the picture where it is told, and says where', async () => {
  const { dormouse } = await start(() => ({ body: 'a picture' }))
  const file = join(folder(), 'screen.png')
  expect(await dormouse(['screenshot', desktopId, file])).toMatchObject({ code: 0, stdout: `${file}\n` })
  expect(readFileSync(file, 'utf8')).toBe('a picture')
  expect((await dormouse(['screenshot', desktopId, '-'])).stdout).toBe('a picture')
})

test('resolution changes the size of the screen, and prints what it is', async () => {
  const { dormouse, seen } = await start(() => ({ body: { exit_code: 0, stdout: '1920x1080\n', stderr: '' } }))
  expect(await dormouse(['resolution', desktopId, '1920x1080'])).toMatchObject({ code: 0, stdout: '1920x1080\n' })
  expect(JSON.parse(String(seen[0]?.body)).command.at(-1)).toBe('1920x1080')
  expect(await dormouse(['resolution', desktopId, 'huge'])).toMatchObject({ code: 2 })
})
