// Guarantee: top shows what each selected desktop uses, the busiest first, and what is not known as unknown.
import { desktop } from '@dormouse/client/testing/samples'
import type { Script } from '@dormouse/client/testing/scripted-server'
import { expect, test } from 'vitest'
import { start } from '../testing/process.ts'

const ids = [1, 2, 3].map((last) => `01980f3e-7a5c-7c1e-9d54-1c2f5e6a7b8${last}`)
const figures = {
  ...{ at: 1_767_225_605, memory_used_mib: 311, memory_mib: 512, disk_read_bytes_per_sec: null },
  ...{ disk_write_bytes_per_sec: 40_960, network_received_bytes_per_sec: 2_621_440, network_sent_bytes_per_sec: 0 },
}
const awake = ids.map((id, at) =>
  desktop({ id, state: 'awake', name: `d${at}`, metrics: at === 2 ? null : { ...figures, cpu_percent: 10 + 90 * at } }),
)

const service: Script = ({ path, query }) => {
  if (path === '/v1/desktops')
    return { body: { desktops: awake }, headers: { link: '</v1/desktops?cursor=c>; rel="next"' } }
  expect(query.get('include')).toBe('metrics')
  return { body: awake[ids.indexOf(path.split('/')[3]!)] }
}

test('the busiest desktop comes first, and what is not known is a dash', async () => {
  const { dormouse, seen } = await start(service)
  const { code, stdout, stderr } = await dormouse(['top', '--select', 'team=qa', '--limit', '3'])
  const cells = stdout
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/ {2,}/).slice(1))
  expect(cells).toEqual([
    ['NAME', 'CPU', 'MEMORY', 'READ', 'WRITTEN', 'RECEIVED', 'SENT'],
    ['d1', '100 %', '311 of 512 MiB', '-', '40 KiB/s', '2.5 MiB/s', '0 KiB/s'],
    ['d0', '10 %', '311 of 512 MiB', '-', '40 KiB/s', '2.5 MiB/s', '0 KiB/s'],
    ['d2', '-', '-', '-', '-', '-', '-'],
  ])
  expect([code, stderr]).toEqual([0, 'There are more; raise --limit.\n'])
  expect(String(seen[0]!.query)).toBe('state=awake&select=team%3Dqa&limit=3')
  const { stdout: document } = await dormouse(['top', '--json'])
  expect(JSON.parse(document)).toEqual({ desktops: [awake[1], awake[0], awake[2]] })
})
