/** Names, flags, parameters: what the caller passes is what is sent. */
import { describe, expect, test } from 'vitest'
import { createFlag, domainState, migrateFlag, statsFlag } from './constants.ts'
import { migrationParams } from './migration.ts'
import { flagsOf, nameOf, textParams, valuesOf, versionText } from './values.ts'

describe('values', () => {
  test('name what is known and say unknown of the rest', () => {
    expect(nameOf(domainState, 3)).toBe('paused')
    expect(nameOf(domainState, 99)).toBe('unknown')
  })

  test('or only the flags that are wished, as an unsigned word', () => {
    expect(flagsOf(createFlag, { paused: true, autodestroy: false, validate: true })).toBe(17)
    expect(flagsOf({ top: 2 ** 31 }, { top: true })).toBe(2 ** 31)
    expect(flagsOf(statsFlag, {})).toBe(0)
  })

  test('leave out what is undefined', () => {
    const params = textParams({ file: '/a', dxml: undefined })
    expect(valuesOf(params)).toEqual({ file: '/a' })
  })

  test('spell versions', () => {
    expect([9_000_000, 11_003_002, 7_002_022].map(versionText)).toEqual(['9.0.0', '11.3.2', '7.2.22'])
  })
})

describe('a migration', () => {
  test('is peer to peer, and names each disk by a parameter of its own', () => {
    const flags = migrateFlag.live | migrateFlag.nonSharedInc
    const { params, flags: all } = migrationParams({ flags, disks: ['vda', 'vdb'], bandwidthMiBps: 100 })
    expect(all).toBe(1 | 2 | 128)
    expect(params.filter(({ name }) => name === 'migrate_disks').map(({ value }) => value.value)).toEqual([
      'vda',
      'vdb',
    ])
    expect(params.at(-1)).toEqual({ name: 'bandwidth', value: { type: 'u64', value: 100n } })
  })
})
