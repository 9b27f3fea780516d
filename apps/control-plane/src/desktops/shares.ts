// The shares of a tier as its setting has them (`cpu=100,iops=2000,…`), and as a host is told of them. Pure.
import { type DesktopSpec, type Shares, shares, type Tier } from '@dormouse/contract'

/** The names in the setting. */
const fields = {
  cpu: 'cpu_weight',
  iops: 'disk_iops',
  disk: 'disk_mib_per_second',
  network: 'network_mbit_per_second',
  packets: 'packets_per_second',
  connections: 'connections',
} as const satisfies Record<string, keyof Shares>
type Name = keyof typeof fields

const names = Object.keys(fields) as Name[]
const noShares = Object.fromEntries(names.map((name) => [fields[name], null])) as Shares

/** What a desktop of that many virtual processors gets if nothing else is set. */
const usual = (vcpus: number): Shares => ({
  cpu_weight: 100 * vcpus,
  disk_iops: 2_000 * vcpus,
  disk_mib_per_second: 50 * vcpus,
  network_mbit_per_second: 100 * vcpus,
  packets_per_second: 10_000 * vcpus,
  connections: 1_000 * vcpus,
})

export const usualText = (vcpus: number): string =>
  names.map((name) => `${name}=${usual(vcpus)[fields[name]]}`).join(',')

/** What the text leaves out stays as `usualText`; 0 is no limit; `off` limits nothing. A string says what is wrong. */
export function parseShares(text: string, vcpus: number): Shares | string {
  if (text.trim() === 'off') return noShares
  const found: Partial<Shares> = {}
  for (const part of text.split(',')) {
    const [, name = '', value = ''] = /^\s*([^=]*?)\s*(?:=\s*(.*?)\s*)?$/.exec(part) ?? []
    if (!isName(name)) return `has "${name}", which is none of ${names.join(', ')}`
    const field = fields[name]
    if (field in found) return `has ${name} twice`
    const range = shares.shape[field].unwrap()
    const number = /^\d{1,9}$/.test(value) ? Number(value) : Number.NaN
    if (number !== 0 && !range.safeParse(number).success)
      return `has ${name}=${value}; ${name} must be a whole number from 1 to ${range.maxValue}, or 0 for no limit`
    found[field] = number === 0 ? null : number
  }
  return { ...usual(vcpus), ...found }
}

const isName = (name: string): name is Name => Object.hasOwn(fields, name)

/** Of the settings. */
export const sharesOfTiers = (config: Record<'tierSmallShares' | 'tierDefaultShares' | 'tierLargeShares', Shares>) => ({
  small: config.tierSmallShares,
  default: config.tierDefaultShares,
  large: config.tierLargeShares,
})

/** What a host is told of a desktop. An operation that release 0.1 accepted does not know the tier. */
export const withShares = (spec: DesktopSpec, tier: Tier | undefined, tiers: Record<Tier, Shares>): DesktopSpec =>
  tier ? { ...spec, shares: tiers[tier] } : spec
