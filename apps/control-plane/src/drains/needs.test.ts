// Guarantee: a plan requests what the step itself will request.
import { expect, test } from 'vitest'
import type { DesktopRow } from '../desktops/store.ts'
import { needsOf } from './needs.ts'

const desktop = { id: 'd', hostId: 'h', vcpus: 2, memoryMiB: 512, diskGiB: 8, imageVersion: 'mini', madeFrom: 'mini@3' }

test('the image is the version that its disk was made from; what sleeps needs only its disk', () => {
  const row = desktop as DesktopRow
  expect(needsOf(row, 'live_move')).toMatchObject({ image: 'mini@3', memoryMiB: 512, leaving: { not: ['h'] } })
  expect(needsOf(row, 'hibernate')).toMatchObject({ memoryMiB: 512, vcpus: 2 })
  expect(needsOf(row, 'move')).toMatchObject({ memoryMiB: 0, vcpus: 0, diskGiB: 8 })
})
