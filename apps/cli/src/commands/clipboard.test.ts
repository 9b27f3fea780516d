import { desktopId } from '@dormouse/client/testing/samples'
import { expect, test } from 'vitest'
import { start } from '../testing/process.ts'

test('clipboard get prints the text alone; set sends it', async () => {
  const { dormouse, seen } = await start(() => ({ body: { text: 'Grüße\n', truncated: false } }))
  expect(await dormouse(['clipboard', 'get', desktopId])).toMatchObject({ code: 0, stdout: 'Grüße\n' })
  expect(await dormouse(['clipboard', 'set', desktopId, 'Grüße'])).toMatchObject({ code: 0, stdout: '' })
  expect(seen.map(({ method, body }) => `${method} ${body}`)).toEqual(['GET ', 'PUT {"text":"Grüße"}'])
})
