// Guarantee: a real desktop that sleeps comes back from a vault on another host as it slept, with memory and disk; and in place
// with the disk of then.
import { mkdirSync, mkdtempDisposableSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fenceOf } from '@dormouse/agent/testing/bench.ts'
import { newId } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { guestSpec } from './parts/agent-stage.ts'
import { TwoHosts } from './parts/two-hosts.ts'

test('it sleeps at home, is copied, and wakes away from the copy; then it gets an older disk in place', async () => {
  await using hosts = await TwoHosts.start({ memoryMiB: 8 })
  const { id, home, away } = hosts
  using vault = mkdtempDisposableSync(join(tmpdir(), 'dormouse-vault-'))
  for (const { folder } of [home, away]) {
    mkdirSync(join(folder, 'vaults'))
    writeFileSync(
      join(folder, 'vaults', 'main.env'),
      `RESTIC_REPOSITORY=${join(vault.path, 'repo')}\nRESTIC_PASSWORD=secret\n`,
    )
  }
  const make = (host: typeof home, generation: number, turn: number) =>
    host.ask('copy.make', { desktopId: id, generation, turn, copyId: newId(), vault: 'main', parent: null })
  await home.ask('desktop.ensureHibernated', { fence: fenceOf(id, 1, 20) })
  const started = performance.now()
  const copy = await make(home, 1, 20)
  console.info(
    `copied ${copy.sizeBytes} bytes, ${copy.addedBytes} new, in ${Math.round(performance.now() - started)} ms`,
  )
  expect(copy).toMatchObject({ kind: 'memory', traits: { driver: 'libvirt', kind: 'cold' } })
  const request = {
    vault: 'main',
    snapshot: copy.snapshot,
    spec: guestSpec,
    imageDigest: copy.traits.imageDigest,
    handoff: copy.handoff,
  }
  const before = performance.now()
  const restored = await away.ask('copy.restore', { ...request, fence: fenceOf(id, 2, 30), memory: true })
  console.info(`restored in ${Math.round(performance.now() - before)} ms`)
  expect(restored).toEqual({ state: 'hibernated' })
  // The old host does not know yet. Here its desktop is removed, as a destroy of what it has would.
  await home.ask('desktop.ensureAbsent', { fence: fenceOf(id, 2, 30) })
  const source = { memory: 'require', disk: 'require' } as const
  const woken = await away.ask('desktop.ensureAwake', { fence: fenceOf(id, 3, 40), spec: guestSpec, source })
  expect(woken).toMatchObject({ resumedFrom: 'memory' })
  await hosts.expectAt(away)
  await away.run(id, 'echo later > /root/later; sync')
  await away.ask('desktop.ensureHibernated', { fence: fenceOf(id, 3, 50) })
  const inPlace = await away.ask('copy.restore', { ...request, fence: fenceOf(id, 4, 60), memory: false })
  expect(inPlace).toEqual({ state: 'stopped' })
  const booted = await away.ask('desktop.ensureAwake', {
    fence: fenceOf(id, 5, 70),
    spec: guestSpec,
    source: { memory: 'allow', disk: 'require' },
  })
  expect(booted).toMatchObject({ resumedFrom: 'disk' })
  expect(await away.run(id, 'ls /root/later 2>/dev/null; ls /root/file')).toBe('/root/file')
})
