// Guarantee: an operator reads why an operation failed, what its customer was told, and when its steps began.
import { desktopId, operation, operationId } from '@dormouse/client/testing/samples'
import { expect, test } from 'vitest'
import { start } from '../testing/process.ts'

const at = '2026-01-02T03:04:05.678Z'
const failed = {
  ...operation({ state: 'failed', error: 'the desktop’s host failed at this' }),
  org_id: desktopId,
  generation: 1,
  turn: 2,
  error_code: 'hypervisor_failed',
  cause: 'qemu: no such device',
  request_id: 'r-1',
  findings: { hostId: 'hv-3' },
  timeline: [
    { step: 'run', way: 'run', at },
    { step: 'run', way: 'undo', at },
  ],
}

test('admin operation shows both texts and the steps, and with --json the one document', async () => {
  const { dormouse, seen } = await start(() => ({ body: failed }))
  const { code, stdout } = await dormouse(['admin', 'operation', operationId])
  expect(code).toBe(0)
  expect(stdout).toMatch(/^cause +qemu: no such device$/m)
  expect(stdout).toMatch(/^customer sees +the desktop’s host failed at this$/m)
  expect(stdout).toMatch(/^findings +hostId "hv-3"$/m)
  expect(stdout).toMatch(/^STEP +PHASE +BEGAN\nrun +run +2026.*\nrun +undo +2026/m)
  const document = JSON.parse((await dormouse(['admin', 'operation', operationId, '--json'])).stdout)
  expect(document).toEqual(failed)
  expect(seen.map(({ path }) => path)).toEqual(Array(2).fill(`/admin/v1/operations/${operationId}`))
})
