// Guarantee: a command's answer is the command's, and where there can be none, the status says why.
import { isInternalOnly, refusalCode } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { House } from '../house.ts'
import { waitFor } from '../wait-for.ts'

test('exit code, both streams and input are the command’s; a non-zero exit is a 200', async () => {
  await using house = await House.start()
  const { id } = await house.desktop('awake')
  const plain = await house.exec(id, 'echo out; echo err >&2; exit 7')
  expect(plain.status).toBe(200)
  expect(plain.json).toMatchObject({ exit_code: 7, signal: null, stdout: 'out\n', stderr: 'err\n' })
  expect(plain.json).toMatchObject({ stdout_truncated: false, stderr_truncated: false })
  expect((await house.exec(id, ['echo', 'a b', '$HOME'])).json.stdout).toBe('a b $HOME\n')
  expect((await house.exec(id, 'cat', { stdin: 'given' })).json.stdout).toBe('given')
  expect((await house.exec(id, 'echo $WORD', { env: { WORD: 'said' } })).json.stdout).toBe('said\n')
  expect((await house.exec(id, 'true', { timeout_secs: 100_000 })).status).toBe(200)
  for (const name of ['constructor', '__proto__', 'toString']) {
    expect((await house.exec(id, name)).json).toMatchObject({ exit_code: 127 })
    expect((await house.exec(id, [name])).json).toMatchObject({ code: 'command_not_run' })
  }
})

test('a command that passes its deadline is 504, and the desktop is still of use', async () => {
  await using house = await House.start()
  const { id } = await house.desktop('awake')
  const late = await house.exec(id, 'sleep 60', { timeout_secs: 1 })
  expect([late.status, late.json.code]).toEqual([504, 'guest_deadline'])
  expect((await house.exec(id, 'echo on')).json.stdout).toBe('on\n')
})

test('a host that is away is 503 with Retry-After, and at once when it goes in the middle of a command', async () => {
  await using house = await House.start()
  const { id } = await house.desktop('awake')
  const before = house.host.driver.faults.counts.exec ?? 0
  const running = house.exec(id, 'sleep 30', { timeout_secs: 60 })
  await waitFor('the command to run', () => (house.host.driver.faults.counts.exec ?? 0) > before)
  await house.replica.parts.links.disconnect(house.host.id, 'cut by the test')
  const cut = await running
  expect([cut.status, cut.json.code]).toEqual([503, 'host_unreachable'])
  await house.linked(house.host)
  await house.killAgent()
  const away = await house.exec(id, 'true')
  expect([away.status, away.json.code]).toEqual([503, 'host_unreachable'])
  expect(Number(away.headers['retry-after'])).toBeGreaterThan(0)
})

test('a desktop that is asked more than it may takes nothing from its neighbours, nor from what wakes and hibernates', async () => {
  await using house = await House.start()
  const [busy, other] = [(await house.desktop('awake')).id, (await house.desktop('awake')).id]
  const release = house.host.driver.faults.hang('exec')
  const hanging = Array.from({ length: 70 }, () => house.exec(busy, 'sleep 1'))
  const refused = hanging.map((each) => each.then(({ status, json }) => status === 503 && json.code))
  const first = await Promise.any(refused.map(async (each) => (await each) || Promise.reject(new Error('it ran'))))
  expect(first).toBe('guest_unavailable')
  await waitFor('the others to be begun', () => house.host.driver.faults.counts.exec === 64)
  await house.ask(other, 'hibernate')
  await house.ask(other, 'wake')
  release()
  expect((await Promise.all(refused)).filter(Boolean)).toHaveLength(6)
  expect((await house.exec(other, 'true')).status).toBe(200)
})

test('more than 300 s is 300 to the guest, nothing is 60, and neither is refused', async () => {
  await using house = await House.start()
  const { id } = await house.desktop('awake')
  for (const [asked, reaches] of [
    [undefined, 60],
    [null, 60],
    [1, 1],
    [300, 300],
    [301, 300],
    [Number.MAX_SAFE_INTEGER, 300],
  ]) {
    expect((await house.exec(id, 'true', { timeout_secs: asked })).status).toBe(200)
    expect([asked, house.host.driver.faults.lastExec?.timeoutSecs]).toEqual([asked, reaches])
  }
})

const inner = refusalCode.options.filter(isInternalOnly)

test('what a host says to us alone is never told to a caller, nor a fault: 503, and the next try is as good', async () => {
  await using house = await House.start()
  const { id } = await house.desktop('awake')
  expect(inner).toEqual(expect.arrayContaining(['stale_turn', 'unknown_desktop', 'hypervisor_failed', 'guest_silent']))
  for (const code of inner) {
    house.host.driver.faults.failNext('exec', 1, code)
    const answer = await house.exec(id, 'true')
    expect([code, answer.status, answer.json.code]).toEqual([code, 503, 'guest_unavailable'])
    expect(answer.headers['retry-after']).toBe('2')
    expect((await house.exec(id, 'true')).status).toBe(200)
  }
})
