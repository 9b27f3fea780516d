// A tier's shares in libvirt's words, and what a domain's XML says of them. Pure.
import type { Shares } from '@dormouse/contract'

/** For how long a guest may read and write twice as much. */
const burstSecs = 10
const mib = 1024 * 1024

type Limits = Record<string, number>

/** What libvirt limits of a domain. */
export interface Tuning {
  /** Undefined leaves it as it is: libvirt cannot take a weight away. */
  cpuShares: number | undefined
  /** For its disk; 0 is no limit. */
  ioTune: Limits
  /** For its network port; 0 is no limit. */
  bandwidth: Limits
}

export function tuningOf(shares: Shares | undefined): Tuning {
  const rate = kibOf(shares?.network_mbit_per_second)
  return {
    cpuShares: shares?.cpu_weight ?? undefined,
    ioTune: {
      ...burstable('total_bytes_sec', (shares?.disk_mib_per_second ?? 0) * mib),
      ...burstable('total_iops_sec', shares?.disk_iops ?? 0),
    },
    // As much as in a second may come at once: dropped packets slow TCP down to far less than its rate.
    bandwidth: Object.fromEntries(
      ['inbound', 'outbound'].flatMap((way) => [
        [`${way}.average`, rate],
        [`${way}.burst`, rate],
      ]),
    ),
  }
}

/** KiB a second of Mbit a second; 0 of none. */
export const kibOf = (mbit: number | null | undefined): number => Math.ceil(((mbit ?? 0) * 1_000_000) / 8 / 1024)

function burstable(name: string, rate: number): Limits {
  return { [name]: rate, [`${name}_max`]: 2 * rate, [`${name}_max_length`]: rate > 0 ? burstSecs : 0 }
}

/** What a running domain's XML says. */
export function readTuning(xml: string): Tuning {
  const { ioTune, bandwidth } = tuningOf(undefined)
  const [cputune = '', iotune = '', band = ''] = [cputuneForm, iotuneForm, bandwidthForm].map(
    (form) => form.exec(xml)?.[0] ?? '',
  )
  for (const [, name, value] of iotune.matchAll(/<(\w+)>(\d+)<\/\1>/g)) ioTune[name!] = Number(value)
  for (const [, way, attributes] of band.matchAll(/<(inbound|outbound) ([^>]*)\/>/g))
    for (const [, name, value] of attributes!.matchAll(/(\w+)=['"](\d+)['"]/g))
      bandwidth[`${way}.${name}`] = Number(value)
  const weight = /<shares>(\d+)</.exec(cputune)?.[1]
  return { cpuShares: weight ? Number(weight) : undefined, ioTune, bandwidth }
}

const cputuneForm = /<cputune>[\s\S]*?<\/cputune>/
const iotuneForm = /<iotune>[\s\S]*?<\/iotune>/
const bandwidthForm = /<bandwidth>[\s\S]*?<\/bandwidth>/

/** What limits a domain belongs to its host and its next wake: no saved or moved domain takes it along. */
export const withoutTuning = (xml: string): string => replaceTuning(xml, () => '')

export const replaceTuning = (xml: string, by: (element: string) => string): string =>
  xml.replace(/<(cputune|iotune|bandwidth)>[\s\S]*?<\/\1>/g, by)

export const isSame = (a: Limits, b: Limits): boolean =>
  [...new Set([...Object.keys(a), ...Object.keys(b)])].every((name) => (a[name] ?? 0) === (b[name] ?? 0))
