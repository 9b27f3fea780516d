// Guarantee: a real desktop that began with a template, and that moves before its disk has grown, gets a disk of its own size.
import { fenceOf } from '@dormouse/agent/testing/bench.ts'
import { TestMove } from '@dormouse/agent/testing/move.ts'
import { newId } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { waitFor } from '../wait-for.ts'
import { guestSpec } from './parts/agent-stage.ts'
import { TwoHosts } from './parts/two-hosts.ts'

const sectorsPerGib = 1024 ** 3 / 512
const size = 'cat /sys/block/vda/size'

test.each(['live', 'cold'] as const)('a disk larger than its template’s moves %s before it has grown', async (kind) => {
  const hosts = await TwoHosts.start({ memoryMiB: 8, templatesMiB: 4_000 })
  await using _closing = hosts
  const { home, away } = hosts
  await home.parts.templates.settled()
  await hosts.end()
  const spec = { ...guestSpec, diskGiB: 3 }
  const id = newId()
  await home.crashAt('first-wake.after-done', () => home.awake(fenceOf(id, 1, 1), 'allow', 'make', spec))
  if (kind === 'cold') await home.hibernated(fenceOf(id, 1, 2))
  const move = new TestMove({ from: home, to: away, desktopId: id, kind, generation: 1, turn: 3, spec })
  expect(await move.whole()).toBe(kind === 'cold' ? 'hibernated' : 'awake')
  if (kind === 'cold') await away.awake(fenceOf(id, 2, 5), 'require', 'require', spec)
  await waitFor(async () => (await away.run(id, size)) === `${3 * sectorsPerGib}`)
  await waitFor(async () => Number(await away.run(id, "df -m / | awk 'END { print $2 }'")) > 2_500, 60_000)
  await away.destroyed(fenceOf(id, 2, 9))
})
