// Guarantee: a tier's shares become libvirt's limits, are found again in its XML, and leave with no saved or moved domain.
import type { Shares } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { blankedText } from './save-head.ts'
import { isSame, readTuning, tuningOf, withoutTuning } from './tuning.ts'

const shares: Shares = {
  cpu_weight: 100,
  disk_iops: 2_000,
  disk_mib_per_second: 50,
  network_mbit_per_second: 100,
  packets_per_second: 10_000,
  connections: 1_000,
}

const cputune = `<cputune>\n    <shares>100</shares>\n  </cputune>`
const iotune = `<iotune>
        <total_bytes_sec>52428800</total_bytes_sec><total_bytes_sec_max>104857600</total_bytes_sec_max>
        <total_bytes_sec_max_length>10</total_bytes_sec_max_length><total_iops_sec>2000</total_iops_sec>
        <total_iops_sec_max>4000</total_iops_sec_max><total_iops_sec_max_length>10</total_iops_sec_max_length></iotune>`
const bandwidth = `<bandwidth><inbound average='12208' burst='12208'/><outbound average='12208' burst='12208'/></bandwidth>`
const around = (...[cpu, disk, port]: [string, string, string]) =>
  `<domain><name>ü</name>${cpu}<disk>${disk}</disk><interface>${port}</interface></domain>`

test('what libvirt says of limited domain is what was wanted, and of others that nothing limits them', () => {
  const [wanted, found] = [tuningOf(shares), readTuning(around(cputune, iotune, bandwidth))]
  expect(found).toEqual(wanted)
  const none = readTuning(around('', '', ''))
  expect(none).toEqual(tuningOf(undefined))
  expect(isSame(none.ioTune, wanted.ioTune)).toBe(false)
  expect(isSame(none.bandwidth, tuningOf({ ...shares, network_mbit_per_second: null }).bandwidth)).toBe(true)
})

test('limits are left out of what moves, and a saved head stays as long as it is', () => {
  const [limited, free] = [around(cputune, iotune, bandwidth), around('', '', '')]
  expect(withoutTuning(limited)).toBe(free)
  const head = Buffer.from(`${limited}\0<cookie/>\0`)
  const blanked = blankedText(head, limited.length + 2)
  expect(blanked).toHaveLength(head.length)
  expect(blanked.toString().replaceAll(/ {20,}/g, '')).toBe(`${free}\0<cookie/>\0`)
})
