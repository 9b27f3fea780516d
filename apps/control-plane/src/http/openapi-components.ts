// Which schemas of the document are really used, and by which name. Pure; knows the document's form and nothing of routes.

interface Document {
  components: Record<string, Record<string, object>>
  [more: string]: unknown
}

const prefix = '#/components/schemas/'
const inputSuffix = 'Input'

/**
 * The generator makes every schema twice, once for requests as `…Input`, once for answers. Kept is what is referred to,
 * under its own name. One that is used both ways must read the same both ways, or be two schemas in the contract.
 */
export function componentsInUse<D extends Document>(document: D): D {
  const { schemas = {}, ...others } = document.components
  const used = reachable(document, schemas)
  const names = new Map([...used].map((name) => [name, ownName(name, schemas)]))
  const kept = [...names].sort(([, a], [, b]) => (a < b ? -1 : 1)).map(([name, own]) => [own, schemas[name]])
  const renamed = { ...document, components: { ...others, schemas: Object.fromEntries(kept) } }
  return mapRefs(renamed, (name) => names.get(name) ?? name) as D
}

function ownName(name: string, schemas: Record<string, object>): string {
  const own = name.endsWith(inputSuffix) ? name.slice(0, -inputSuffix.length) : name
  return own in schemas ? own : name
}

/** Everything that the document outside of its schemas refers to, directly or through another schema. */
function reachable(document: Document, schemas: Record<string, object>): Set<string> {
  const found = new Set<string>()
  const { schemas: _, ...others } = document.components
  const waiting = refsIn({ ...document, components: others })
  for (let name = waiting.pop(); name !== undefined; name = waiting.pop()) {
    if (found.has(name) || !schemas[name]) continue
    found.add(name)
    waiting.push(...refsIn(schemas[name]))
  }
  return found
}

function refsIn(value: unknown): string[] {
  const found: string[] = []
  mapRefs(value, (name) => {
    found.push(name)
    return name
  })
  return found
}

function mapRefs(value: unknown, rename: (name: string) => string): unknown {
  return JSON.parse(JSON.stringify(value), (key, given) =>
    key === '$ref' && typeof given === 'string' && given.startsWith(prefix)
      ? prefix + rename(given.slice(prefix.length))
      : given,
  )
}
