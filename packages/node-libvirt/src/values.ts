/** Converts between the protocol's numbers and typed parameters, and names and plain values. */
import type { TypedParam } from './protocol.ts'

/** A value of libvirt's; 64-bit ones are bigint. */
export type Value = number | bigint | boolean | string
export type Values = Record<string, Value>

/** The name of a number in a group of constants; `unknown` if this package has none for it. */
export function nameOf<G extends Record<string, number>>(group: G, number: number): (keyof G & string) | 'unknown' {
  for (const name in group) if (group[name] === number) return name
  return 'unknown'
}

/** Typed parameters as a plain object. A repeated name keeps its last value. */
export function valuesOf(params: TypedParam[]): Values {
  return Object.fromEntries(params.map(({ name, value }) => [name, value.value]))
}

/** Text parameters, leaving out what is undefined. */
export function textParams(values: Record<string, string | undefined>): TypedParam[] {
  return Object.entries(values).flatMap(([name, value]) =>
    value === undefined ? [] : [{ name, value: { type: 'text' as const, value } }],
  )
}

/** Whole numbers, all of the same type. */
export function numberParams(values: Record<string, number>, type: 'u32' | 'u64'): TypedParam[] {
  return Object.entries(values).map(([name, value]) => ({
    name,
    value: type === 'u32' ? { type, value } : { type, value: BigInt(value) },
  }))
}

/** The flags whose condition holds, or-ed. */
export function flagsOf<G extends Record<string, number>>(
  group: G,
  chosen: { [K in keyof G]?: boolean | undefined },
): number {
  let flags = 0
  for (const name in group) if (chosen[name]) flags |= group[name] as number
  return flags >>> 0
}

/** libvirt's version number in its usual form: 9000000 is 9.0.0. */
export function versionText(version: number): string {
  return [Math.floor(version / 1_000_000), Math.floor(version / 1_000) % 1_000, version % 1_000].join('.')
}
