// Guarantee: a host that gives a desktop up keeps nothing of it, refuses that turn from then on, and takes it again in a later one.
import { newId } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { Bench, fenceOf } from '../testing/bench.ts'

test('what a failed wake has left is removed, also by an agent that died meanwhile, and the desktop may come again', async () => {
  await using bench = await Bench.start()
  const desktopId = newId()
  const [wake, later] = [fenceOf(desktopId, 1, 1), fenceOf(desktopId, 1, 2)]
  await bench.awake(wake)
  await bench.crashAt('absent.after-kill', () => bench.ask('desktop.ensureAbsent', { fence: wake }))
  for (let twice = 0; twice < 2; twice++) await bench.ask('desktop.ensureAbsent', { fence: wake })
  expect(await bench.driver.hasDisk(desktopId)).toBe(false)
  expect((await bench.ask('host.inventory', {})).items).toEqual([])
  await expect(bench.awake(wake)).rejects.toThrow(/undone/)
  expect((await bench.awake(later)).resumedFrom).toBe('image')
  expect((await bench.ask('host.inventory', {})).items).toMatchObject([{ desktopId, domain: 'running' }])
  await expect(bench.ask('desktop.ensureAbsent', { fence: wake })).rejects.toThrow(/already accepted/)
  expect(await bench.driver.hasDisk(desktopId)).toBe(true)
})
