// Guarantee: what a host, its hypervisor or placement reports is shown to operators, never to a customer. A customer reads
// in the service’s own words what happened, whether anything was lost, and what to do.
import { createAdminClient } from '@dormouse/client'
import { type OperationJson, type RefusalCode, refusals } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'
import type { ApiAnswer } from './parts/api.ts'

const marker = 'qemu-system-x86_64: /var/lib/dormouse/MARKER: connect ECONNREFUSED'
const codes = Object.keys(refusals) as RefusalCode[]
/** These are asked again until the operation's deadline. */
const passing: RefusalCode[] = ['host_unreachable', 'guest_unavailable', 'too_many_moves']

async function testbed() {
  const stack = await Stack.start()
  const operatorKey = await stack.replica.parts.principals.createOperatorKey('ops')
  const admin = createAdminClient({ baseUrl: stack.url, operatorKey, retries: 0 })
  const { faults } = stack.host.driver
  const failing = (code: RefusalCode) => {
    for (const operation of ['makeDisk', 'save', 'exec', 'readFile', 'writeFile', 'screen'] as const)
      faults.failNext(operation, 1_000, code, `${marker} ${code}`)
  }
  const well = () => {
    for (const operation of ['makeDisk', 'save', 'exec', 'readFile', 'writeFile', 'screen', 'kill'] as const)
      faults.failNext(operation, 0)
  }
  return { stack, admin, faults, failing, well }
}

/** The customer sees it nowhere, the operator sees why. */
async function settledWithout(
  { stack, admin }: Awaited<ReturnType<typeof testbed>>,
  code: RefusalCode,
  accepted: OperationJson,
): Promise<OperationJson> {
  const settled = await stack.settled(accepted.id)
  const seen = await stack.api('GET', `/v1/desktops/${settled.desktop_id}/operations`)
  expect(seen.text).not.toContain('MARKER')
  expect([code, settled.state, (await admin.getOperation(settled.id)).cause]).toEqual([
    code,
    'failed',
    expect.stringContaining(`${marker} ${code}`),
  ])
  return settled
}

test('when a host refuses a call into a guest, only operators see the host’s reason', async () => {
  const on = await testbed()
  await using stack = on.stack
  const { id } = await stack.desktop('awake')
  const at = `/v1/desktops/${id}`
  await stack.api('PUT', `${at}/files/srv/x`, { body: 'x' })
  for (const code of codes) {
    on.failing(code)
    const answers: ApiAnswer[] = await Promise.all([
      stack.exec(id, 'true'),
      stack.api('GET', `${at}/files/srv/x`),
      stack.api('PUT', `${at}/files/srv/x`, { body: 'x' }),
      stack.api('GET', `${at}/screenshot`),
    ])
    for (const { status, text, headers } of answers) {
      expect([code, status >= 400, text]).toEqual([code, true, expect.not.stringContaining('MARKER')])
      const line = stack.chronicle
        .find(/^a request was refused$/)
        .find((one) => one.request === headers['x-request-id'])
      expect([code, line?.cause]).toEqual([code, expect.stringContaining(`${marker} ${code}`)])
    }
  }
})

test('when a host refuses a wake or a hibernation, only operators see the host’s reason', async () => {
  const on = await testbed()
  await using stack = on.stack
  const [awake, fresh] = [await stack.desktop('awake'), await stack.desktop()]
  const operate = async (code: RefusalCode) => {
    on.failing(code)
    const waited = stack.api('POST', `/v1/desktops/${fresh.id}/wake?wait=true`)
    await settledWithout(on, code, await stack.begin(awake.id, 'hibernate'))
    const { status, text, json } = await waited
    expect([code, status, text]).toEqual([code, 409, expect.not.stringContaining('MARKER')])
    return settledWithout(on, code, { id: json.operation_id } as OperationJson)
  }
  for (const code of codes.filter((each) => !passing.includes(each))) {
    const { error } = await operate(code)
    if (code === 'host_disk_full')
      expect(error).toBe('the disk of the desktop’s host is full; nothing was lost; retry later')
  }
  // Time enough for one attempt on a busy machine.
  await stack.withDeadline(2_000, async () => {
    for (const code of passing) await operate(code)
  })
  on.well()
  expect((await stack.ask(awake.id, 'hibernate')).state).toBe('succeeded')
})

test('a destroy that its host refuses is done for the customer, and the operator reads why the rest is still to come', async () => {
  const on = await testbed()
  await using stack = on.stack
  const { id } = await stack.desktop('awake')
  on.faults.failNext('kill', 1_000, 'hypervisor_failed', marker)
  const done = await stack.ask(id, 'destroy')
  expect(done.result?.cleanup).toBe('deferred')
  const { findings, timeline } = await on.admin.getOperation(done.id)
  expect(findings.why).toContain(marker)
  expect(timeline.map(({ step, way }) => `${way} ${step}`)).toEqual(['run remove'])
  expect((await stack.api('GET', `/v1/operations/${done.id}`)).text).not.toContain('MARKER')
  on.well()
  await waitFor('the rest to be removed', async () => !(await stack.host.holds(id)).disk)
})

test('an operator reads when each step began and was taken back', async () => {
  const on = await testbed()
  await using stack = on.stack
  const { id } = await stack.desktop()
  on.faults.failNext('startCold', 1_000, 'hypervisor_failed', `${marker} hypervisor_failed`)
  const operation = await settledWithout(on, 'hypervisor_failed', await stack.begin(id, 'wake'))
  const { timeline, error_code } = await on.admin.getOperation(operation.id)
  expect(error_code).toBe('hypervisor_failed')
  const ways = timeline.map(({ step, way }) => `${way} ${step}`)
  expect(ways).toEqual(['run place', 'run disk', 'run run', 'undo run', 'undo disk', 'undo place'])
  expect(timeline.map(({ at }) => at)).toEqual(timeline.map(({ at }) => at).toSorted())
  expect((await stack.api('GET', `/admin/v1/operations/${operation.id}`)).status).toBe(403)
})

test('an operator waits for an operation of any organisation', async () => {
  const on = await testbed()
  await using stack = on.stack
  const { id } = await stack.desktop()
  const begun = await stack.begin(id, 'wake')
  const done = await on.admin.waitForOperation(begun.id)
  expect(done).toMatchObject({ id: begun.id, state: 'succeeded', org_id: stack.org.id })
  expect(done.timeline.length).toBeGreaterThan(0)
})
