/** For tests: bytes that a codec of the given shape must accept, made from the shape alone and not by the codec. */

function word(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value >>> 0)
  return bytes
}

/** The inside of the bracket that opens at `at`, and where the text goes on behind it. */
function inside(shape: string, at: number): { inner: string; next: number } {
  const close = { '(': ')', '[': ']', '{': '}' }[shape[at] as '(' | '[' | '{']
  let depth = 0
  for (let end = at; end < shape.length; end++) {
    if (shape[end] === shape[at]) depth++
    if (shape[end] === close && --depth === 0) return { inner: shape.slice(at + 1, end), next: end + 1 }
  }
  throw new Error(`unbalanced shape: ${shape}`)
}

const plain: Record<string, Buffer> = {
  i32: word(1),
  u32: word(7),
  i64: Buffer.from('fffffffffffffff9', 'hex'),
  u64: Buffer.from('fffffffffffffff9', 'hex'),
  f64: Buffer.from('3ff8000000000000', 'hex'),
  text: Buffer.concat([word(3), Buffer.from('é!\0')]),
  bytes: Buffer.concat([word(5), Buffer.from('\x01\x02\x03\x04\x05\0\0\0', 'latin1')]),
}

/** Every optional value present, every list two long, every typed value a text. */
export function shapeBytes(shape: string): Buffer {
  const parts: Buffer[] = []
  for (let at = 0; at < shape.length; ) {
    const bracket = shape[at] === '?' ? at + 1 : at
    if (shape[at] === '{') {
      parts.push(word(7), shapeBytes('text'))
      at = inside(shape, at).next
    } else if ('(['.includes(shape[bracket] as string)) {
      const { inner, next } = inside(shape, bracket)
      const once = shapeBytes(inner)
      parts.push(...(shape[at] === '?' ? [word(1), once] : [word(2), once, once]))
      at = next
    } else {
      const name = /^\S*/.exec(shape.slice(at))?.[0] ?? ''
      parts.push(name.startsWith('o') ? Buffer.alloc(Number(name.slice(1)), 0xab) : (plain[name] ?? Buffer.alloc(0)))
      at += name.length || 1
    }
  }
  return Buffer.concat(parts)
}
