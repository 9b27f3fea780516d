// Guarantee: a boot waits for what its image calls ready, for as long as there is time, and reports whether it came; a restored
// memory waits for nothing.
import { newId } from '@dormouse/contract'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { Bench, fenceOf, until } from '../testing/bench.ts'

let bench: Bench
let id: string
beforeEach(async () => {
  bench = await Bench.start()
  id = newId()
  bench.driver.faults.readiness = { command: 'cat /run/session', tryTimeoutSecs: 1 }
})
afterEach(() => bench[Symbol.asyncDispose]())

/** The session comes up in the guest. */
async function comesUp(): Promise<void> {
  const upload = await bench.parts.guests.guest(id).createFile('/run/session', null)
  await upload.write(Buffer.from('up'))
  await upload.commit()
}

/** How many commands the guest was given so far. */
const tries = () => bench.driver.faults.counts.exec ?? 0
const soon = { deadlineMs: 1_500 }

test('a boot is awake once its command has succeeded, however late, and the command is not asked again', async () => {
  const woken = bench.awake(fenceOf(id, 1, 1))
  await until(() => tries() > 2)
  await comesUp()
  expect(await woken).toMatchObject({ resumedFrom: 'image', ready: true, path: 'boot' })
  const asked = tries()
  await bench.hibernated(fenceOf(id, 1, 2))
  expect(await bench.awake(fenceOf(id, 2, 3), 'require', 'require')).toMatchObject({
    resumedFrom: 'memory',
    ready: true,
    path: 'restore',
  })
  expect(tries()).toBe(asked)
})

test('one that never succeeds ends the wait in time for the wake to succeed, and that is said', async () => {
  expect(await bench.awake(fenceOf(id, 1, 1, soon))).toMatchObject({ resumedFrom: 'image', ready: false, path: 'boot' })
  await bench.hibernated(fenceOf(id, 1, 2))
  const asked = tries()
  expect(await bench.awake(fenceOf(id, 2, 3), 'require', 'require')).toMatchObject({
    resumedFrom: 'memory',
    ready: false,
    path: 'restore',
  })
  expect(tries() - asked, 'a memory is asked once').toBe(1)
  await bench.hibernated(fenceOf(id, 2, 4))
  bench.driver.faults.readiness = { command: 'true', tryTimeoutSecs: 1 }
  expect(await bench.awake(fenceOf(id, 3, 5), 'require', 'require')).toMatchObject({
    resumedFrom: 'memory',
    ready: true,
    path: 'restore',
  })
})

test('each boot is asked anew', async () => {
  bench.driver.faults.readiness = { command: 'true', tryTimeoutSecs: 1 }
  await bench.awake(fenceOf(id, 1, 1))
  bench.driver.die(id, 'finished')
  bench.driver.faults.readiness = { command: 'false', tryTimeoutSecs: 1 }
  expect(await bench.awake(fenceOf(id, 2, 2, soon), 'allow', 'require')).toMatchObject({
    resumedFrom: 'disk',
    ready: false,
    path: 'boot',
  })
})

test('a try that hangs is given up, and another is made', async () => {
  const goOn = bench.driver.faults.hang('exec')
  const woken = bench.awake(fenceOf(id, 1, 1))
  await until(() => tries() > 1)
  await comesUp()
  goOn()
  expect(await woken).toMatchObject({ resumedFrom: 'image', ready: true, path: 'boot' })
})

test('an agent that died while it waited goes on waiting', async () => {
  void bench.awake(fenceOf(id, 1, 1)).catch(() => undefined)
  await until(() => tries() > 0)
  await bench.crash()
  bench.driver.faults.readiness = { command: 'cat /run/session', tryTimeoutSecs: 1 }
  const woken = bench.awake(fenceOf(id, 1, 1))
  await until(() => tries() > 0)
  await comesUp()
  expect(await woken).toMatchObject({ resumedFrom: 'image', ready: true, path: 'boot' })
})

test('a desktop whose process ends while it is waited for is not awake', async () => {
  const woken = bench.awake(fenceOf(id, 1, 1))
  await until(() => tries() > 0)
  bench.driver.die(id, 'crashed')
  await expect(woken).rejects.toMatchObject({ code: 'hypervisor_failed' })
})

test('a later request does not wait for it', async () => {
  bench.driver.faults.hang('exec')
  bench.driver.faults.readiness = { command: 'true', tryTimeoutSecs: 3_600 }
  const woken = bench.awake(fenceOf(id, 1, 1, { deadlineMs: 3_600_000 }))
  await until(() => tries() > 0)
  const overtaken = expect(woken).rejects.toMatchObject({ code: 'superseded' })
  await bench.destroyed(fenceOf(id, 1, 2))
  await overtaken
})
