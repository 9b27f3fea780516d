// Guarantee: a hypervisor that answers late does not take its host out of service; one that stays silent does.
import { afterEach, expect, test, vi } from 'vitest'
import type { Driver } from './driver/driver.ts'
import { Facts } from './facts.ts'

afterEach(() => void vi.useRealTimers())

test('the last facts count for ten seconds; then the host has a problem', async () => {
  vi.useFakeTimers()
  const answers: (() => void)[] = []
  const facts = () => new Promise((resolve) => answers.push(() => resolve({ processors: 4, ailment: null })))
  const given = { workAtOnce: 4, moveAddress: null } as never
  const known = new Facts(
    { kind: 'libvirt', facts } as unknown as Driver,
    () => null,
    given,
    async () => ({}) as never,
  )
  const after = async (ms: number) => {
    const current = known.current()
    await vi.advanceTimersByTimeAsync(ms)
    return current
  }
  expect(await after(10_000)).toMatchObject({ ailment: 'the hypervisor has not answered yet' })
  answers.shift()!()
  await vi.advanceTimersByTimeAsync(1)
  expect(await after(1_000)).toMatchObject({ processors: 4, ailment: null })
  await vi.advanceTimersByTimeAsync(8_000)
  expect(await after(1_000)).toMatchObject({ processors: 4, ailment: 'the hypervisor does not answer' })
  answers.shift()!()
  await vi.advanceTimersByTimeAsync(1)
  expect(await after(1_000)).toMatchObject({ ailment: null })
  expect(answers).toHaveLength(1)
})
