import { ArmedFailpoints } from '@dormouse/process'
import { appendFileSync } from 'node:fs'
import { test } from 'vitest'
import { House } from '../house.ts'
test('trace', async () => {
  const failpoints = new ArmedFailpoints()
  await using house = await House.start({ failpoints })
  const api = async (m: string, p: string, body?: object) => (await fetch(house.url + p, { method: m, headers: { authorization: 'Bearer ' + house.org.key }, body: body && JSON.stringify(body) })).json() as any
  const marks: [string, number][] = []
  failpoints.onHit((n) => marks.push([n, performance.now()]))
  for (let i = 0; i < 40; i++) {
    const d = await api('POST', '/v1/desktops', { tier: 'small' })
    for (const kind of ['wake', 'hibernate', 'wake', 'destroy']) {
      marks.length = 0
      const t = performance.now()
      await api('POST', `/v1/desktops/${d.id}/${kind}?wait=true`)
      const end = performance.now()
      if (i > 36) appendFileSync('/tmp/team/trace', [kind, (end - t).toFixed(1), marks.map(([n, at]) => `${n}@${(at - t).toFixed(1)}`).join(' ')].join(' ') + '\n')
    }
  }
}, 60000)
