// Which saved memory may be restored, decided by what is there. (What a wake makes of it: wake.test.ts.)
import { newId } from '@dormouse/contract'
import { expect, test } from 'vitest'
import type { Domain } from '../driver/driver.ts'
import { partialMagic, wholeMagic } from '../driver/saved-file.ts'
import { fenceOf } from '../testing/bench.ts'
import type { Manifest } from './manifests.ts'
import type { MemoryImage } from './memory-images.ts'
import { judge, neverRan } from './situation.ts'

const fence = fenceOf(newId(), 1, 2)
const file = 'one.save'

function image(state: Manifest['state'], magic = wholeMagic, bytes: number | null = 1_000): MemoryImage {
  const saved = {
    hypervisor: 'any',
    emulator: 'any',
    cpuModel: 'any',
    machine: 'any',
    imageVersion: null,
    sha256: null,
  }
  const manifest = { ...fence, ...saved, state, installationId: newId(), bytes: state === 'intended' ? null : 1_000 }
  return { file, path: `/any/${file}`, manifestPath: '/any/one.json', manifest, bytes, magic }
}

const domain = (state: Domain['state']): Domain => ({
  desktopId: fence.desktopId,
  mark: { ...fence, installationId: newId() },
  state,
  reason: null,
  pause: null,
})

test.each(['running', 'paused', 'stopped'] as const)(
  'a save that was cut off, whole or not, is void while its domain is there, %s',
  (state) => {
    for (const magic of [wholeMagic, partialMagic]) {
      const now = judge([image('intended', magic)], domain(state), undefined)
      expect(now).toEqual({ memory: 'partial', usable: undefined })
      expect(neverRan({ domain: domain(state), images: [], disk: true, ...now })).toBe(false)
    }
  },
)

test('a save that was cut off after its last byte is the memory where nothing else holds it, and one before it is not', () => {
  const whole = image('intended')
  expect(judge([whole], undefined, undefined)).toEqual({ memory: 'complete', usable: whole })
  expect(judge([image('intended', partialMagic)], undefined, undefined)).toMatchObject({ memory: 'partial' })
  expect(judge([image('intended', '', null)], undefined, undefined)).toMatchObject({ memory: 'none' })
})

test('an image that was used is used, whoever says so, and one behind it counts for nothing', () => {
  const older = { ...image('complete'), file: 'older.save' }
  expect(judge([image('spent'), older], undefined, undefined)).toEqual({ memory: 'spent', usable: undefined })
  const entry = { spent: [file] } as Parameters<typeof judge>[2]
  expect(judge([image('complete'), older], undefined, entry)).toEqual({ memory: 'spent', usable: undefined })
})
