/** Reads libvirt's published description of its API: the names of functions and the values of enumerations. */

export interface Api {
  functions: Set<string>
  values: Map<string, number>
}

/** Reads any number of `libvirt-api.xml` files into one. */
export function readApi(texts: string[]): Api {
  const all = texts.join('\n')
  const functions = new Set([...all.matchAll(/<function name='(\w+)'/g)].map(([, name]) => name as string))
  const values = new Map<string, number>()
  for (const [, name, rest] of all.matchAll(/<enum name='(\w+)'([^>]*)/g)) {
    const value = /\bvalue='(-?\d+)'/.exec(rest ?? '')?.[1]
    if (name && value !== undefined) values.set(name, Number(value))
  }
  return { functions, values }
}
