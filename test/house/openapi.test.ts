import { writeFileSync } from 'node:fs'
import { test } from 'vitest'
import { House } from '../house.ts'
test('x', async () => {
  await using house = await House.start({ hosts: 0 })
  const a = await house.api('GET', '/v1/openapi.json', { key: null })
  writeFileSync('/tmp/oa/doc.json', JSON.stringify(a.json ?? a.text, null, 1))
})
