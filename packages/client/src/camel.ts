// Converts the API's snake_case to camelCase, in types and in values.

type CamelKey<K> = K extends `${infer Head}_${infer Tail}` ? `${Head}${Capitalize<CamelKey<Tail>>}` : K

/** The same shape with camelCase names. */
export type Camel<T> = T extends (infer Item)[]
  ? Camel<Item>[]
  : T extends object
    ? { [K in keyof T as CamelKey<K>]: Camel<T[K]> }
    : T

/** The same value with camelCase names, all the way down. */
export function camel<T>(value: T): Camel<T> {
  return rename(value) as Camel<T>
}

function rename(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(rename)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [camelName(name), rename(item)]))
}

function camelName(name: string): string {
  return name.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase())
}
