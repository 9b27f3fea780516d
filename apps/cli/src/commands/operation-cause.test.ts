// Guarantee: an operator reads why an operation failed, what its customer reads, and how long each of its steps took.
import { desktopId, operation, operationId } from '@dormouse/client/testing/samples'
import { expect, test } from 'vitest'
import { start } from '../testing/process.ts'

const second = (secs: number) => `2026-01-02T03:04:0${secs}.000Z`
const failed = {
  ...operation({ state: 'failed', error: 'the desktop’s host failed at this' }),
  org_id: desktopId,
  generation: 1,
  turn: 2,
  error_code: 'hypervisor_failed',
  cause: 'qemu: no such device',
  request_id: 'r-1',
  findings: { hostId: 'hv-3' },
  created_at: second(1),
  settled_at: second(9),
  timeline: [
    { step: 'run', way: 'run', at: second(1).replace('000', '025'), duration_ms: 5_975 },
    { step: 'run', way: 'undo', at: second(7), duration_ms: 2_000 },
  ],
}

test('admin operation shows both texts and the steps, and with --json the one document', async () => {
  const { dormouse, seen } = await start(() => ({ body: failed }))
  const { code, stdout } = await dormouse(['admin', 'operation', operationId])
  expect(code).toBe(0)
  expect(stdout).toMatch(/^cause +qemu: no such device$/m)
  expect(stdout).toMatch(/^customer sees +the desktop’s host failed at this$/m)
  expect(stdout).toMatch(/^findings +hostId "hv-3"$/m)
  expect(stdout.slice(stdout.indexOf('STEP'))).toBe(
    `STEP      PHASE   BEGAN                     TOOK   SHARE
accepted  -       2026-01-02T03:04:01.000Z  25 ms  0 %
run       run     2026-01-02T03:04:01.025Z  6.0 s  75 %
run       undo    2026-01-02T03:04:07.000Z  2.0 s  25 %
settled   failed  2026-01-02T03:04:09.000Z  8.0 s  100 %
`,
  )
  const document = JSON.parse((await dormouse(['admin', 'operation', operationId, '--json'])).stdout)
  expect(document).toEqual(failed)
  expect(seen.map(({ path }) => path)).toEqual(Array(2).fill(`/admin/v1/operations/${operationId}`))
})

test('a running operation has no durations', async () => {
  const timeline = [{ step: 'place', way: 'run', at: second(2) }]
  const running = { ...failed, state: 'running', settled_at: null, error: null, error_code: null, timeline }
  const { dormouse } = await start(() => ({ body: running }))
  const { stdout } = await dormouse(['admin', 'operation', operationId])
  expect(stdout).toMatch(/^accepted +- +2026\S+ +1\.0 s +-$/m)
  expect(stdout).toMatch(/^place +run +2026\S+ +- +-$/m)
  expect(stdout).not.toMatch(/^settled +running/m)
})
