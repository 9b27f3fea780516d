/**
 * Reads an RPC language file (`.x`) just far enough to spell the shape of each structure as `xdr.ts` does, and the
 * number and annotations of each procedure. Knows nothing of our own table.
 */

export interface RpcFile {
  constants: Map<string, number>
  procedures: Map<string, { number: number; high: boolean; stream?: 'in' | 'out' }>
  /** The shape of the structure `<program>_<name>`; empty if there is none. */
  shape(name: string): string
}

/** The shapes of C types. */
const primitives: Record<string, string> = {
  int: 'i32',
  unsigned: 'u32',
  'unsigned int': 'u32',
  char: 'i32',
  'unsigned char': 'u32',
  short: 'i32',
  'unsigned short': 'u32',
  hyper: 'i64',
  'unsigned hyper': 'u64',
  double: 'f64',
  bool: 'i32',
}

const declaration = /^(?:struct |enum )?((?:unsigned )?\w+)\s*(\*?)\s*(\w+)?\s*(?:([<[])(\w*)[>\]])?$/

/** Reads the text of one program's file; `outside` holds values that the file takes from C headers. */
export function readProtocol(commented: string, program: string, outside: Map<string, number>): RpcFile {
  const source = commented.replace(/\/\*[\s\S]*?\*\//g, '').replace(/^%.*$/gm, '')
  const constants = new Map(
    [...source.matchAll(/const (\w+) = (0x[0-9a-fA-F]+|\d+);/g)].map(([, name, value]) => [
      name as string,
      Number(value),
    ]),
  )
  constants.set('VIR_UUID_BUFLEN', 16)
  const structs = new Map([...source.matchAll(/struct (\w+) \{([\s\S]*?)\};/g)].map(([, name, body]) => [name, body]))
  const enums = new Set([...source.matchAll(/enum (\w+) \{/g)].map(([, name]) => name))
  const unions = new Map(
    [...source.matchAll(/union (\w+) switch \([^)]*\) \{([\s\S]*?)\};/g)].map(([, name, body]) => [name, body]),
  )
  const typedefs = new Map<string, string>()
  for (const [, body] of source.matchAll(/typedef ([^;]+);/g)) {
    const name = declaration.exec(body?.trim() ?? '')?.[3]
    if (name && body) typedefs.set(name, body.trim())
  }

  function base(type: string): string {
    const typedef = typedefs.get(type)
    const struct = structs.get(type)
    const union = unions.get(type)
    if (primitives[type]) return primitives[type]
    if (enums.has(type)) return 'i32'
    if (typedef) return field(typedef)
    if (struct !== undefined) return fields(struct)
    if (union !== undefined) return variants(union)
    throw new Error(`unknown type ${type}`)
  }

  function field(text: string): string {
    const [, type = '', star, , bracket, size = ''] = declaration.exec(text) ?? []
    const count = constants.get(size) ?? Number(size)
    if (type === 'string') return 'text'
    if (type === 'opaque') return bracket === '<' ? 'bytes' : `o${count}`
    const inner = base(type)
    if (star) return `?(${inner})`
    if (bracket === '<') return `[${inner}]`
    return bracket === '[' ? Array(count).fill(inner).join(' ') : inner
  }

  function fields(body: string): string {
    const parts = body.split(';').map((part) => part.trim().replace(/\s+/g, ' '))
    return parts.filter(Boolean).map(field).join(' ')
  }

  function variants(body: string): string {
    const cases = [...body.matchAll(/case (\w+):\s*([^;]+);/g)]
    return `{${cases.map(([, tag = '', text = '']) => `${outside.get(tag)}:${field(text.trim())}`).join(' ')}}`
  }

  const procedures = proceduresOf(commented, program)
  return { constants, procedures, shape: (name) => fields(structs.get(`${program}_${name}`) ?? '') }
}

function proceduresOf(commented: string, program: string): RpcFile['procedures'] {
  const prefix = `${program.toUpperCase()}_PROC_`
  const numbered = new RegExp(`/\\*\\*((?:(?!\\*/)[\\s\\S])*)\\*/\\s*${prefix}(\\w+) = (\\d+)`, 'g')
  const procedures: RpcFile['procedures'] = new Map()
  for (const [, notes = '', name = '', number] of commented.matchAll(numbered)) {
    const stream = notes.includes('@readstream') ? 'in' : notes.includes('@writestream') ? 'out' : undefined
    procedures.set(name, { number: Number(number), high: notes.includes('@priority: high'), stream })
  }
  return procedures
}
