/**
 * XDR (RFC 4506): encodes values and decodes bytes. Knows no message, no socket and no libvirt. Every codec has a `shape`,
 * a flat description of its bytes, so that a table of codecs can be compared with another description of the protocol.
 */

/** Bytes that the codec cannot decode. */
export class XdrError extends Error {
  override name = 'XdrError'
}

const textDecoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** A growing buffer for encoded values. */
export class XdrWriter {
  #bytes: Buffer
  #length = 0

  constructor(capacity = 256) {
    this.#bytes = Buffer.allocUnsafe(capacity)
  }

  get length(): number {
    return this.#length
  }

  /** Reserves `count` bytes and returns their offset. */
  reserve(count: number): number {
    const start = this.#length
    this.#length += count
    if (this.#length > this.#bytes.length) {
      const grown = Buffer.allocUnsafe(Math.max(this.#length, this.#bytes.length * 2))
      this.#bytes.copy(grown, 0, 0, start)
      this.#bytes = grown
    }
    return start
  }

  i32(value: number): void {
    const at = this.reserve(4)
    this.#bytes.writeInt32BE(value, at)
  }

  u32(value: number): void {
    const at = this.reserve(4)
    this.#bytes.writeUInt32BE(value, at)
  }

  i64(value: bigint): void {
    const at = this.reserve(8)
    this.#bytes.writeBigInt64BE(value, at)
  }

  u64(value: bigint): void {
    const at = this.reserve(8)
    this.#bytes.writeBigUInt64BE(value, at)
  }

  f64(value: number): void {
    const at = this.reserve(8)
    this.#bytes.writeDoubleBE(value, at)
  }

  /** Bytes of a fixed length, padded to a multiple of four. */
  fixed(value: Uint8Array): void {
    const padding = (4 - (value.length & 3)) & 3
    const at = this.reserve(value.length + padding)
    this.#bytes.set(value, at)
    this.#bytes.fill(0, at + value.length, at + value.length + padding)
  }

  text(value: string): void {
    const length = Buffer.byteLength(value)
    const padding = (4 - (length & 3)) & 3
    this.u32(length)
    const at = this.reserve(length + padding)
    this.#bytes.write(value, at, 'utf8')
    this.#bytes.fill(0, at + length, at + length + padding)
  }

  /** The written bytes, without a copy: do not use the writer afterwards. */
  finish(): Buffer {
    return this.#bytes.subarray(0, this.#length)
  }
}

/** Reads received bytes. A read past the end throws XdrError. */
export class XdrReader {
  readonly #bytes: Buffer
  #at: number

  constructor(bytes: Buffer, at = 0) {
    this.#bytes = bytes
    this.#at = at
  }

  get left(): number {
    return this.#bytes.length - this.#at
  }

  #take(count: number): number {
    if (count > this.left) throw new XdrError(`${count} bytes needed at ${this.#at}, ${this.left} left`)
    const at = this.#at
    this.#at += count
    return at
  }

  i32(): number {
    return this.#bytes.readInt32BE(this.#take(4))
  }

  u32(): number {
    return this.#bytes.readUInt32BE(this.#take(4))
  }

  i64(): bigint {
    return this.#bytes.readBigInt64BE(this.#take(8))
  }

  u64(): bigint {
    return this.#bytes.readBigUInt64BE(this.#take(8))
  }

  f64(): number {
    return this.#bytes.readDoubleBE(this.#take(8))
  }

  /** A view of `length` bytes; skips their padding. */
  fixed(length: number): Buffer {
    const at = this.#take(length + ((4 - (length & 3)) & 3))
    return this.#bytes.subarray(at, at + length)
  }

  text(): string {
    const bytes = this.fixed(this.u32())
    try {
      return textDecoder.decode(bytes)
    } catch (cause) {
      throw new XdrError('a string that is not UTF-8', { cause })
    }
  }

  /** Throws if bytes are left: the two sides disagree on the shape. */
  end(): void {
    if (this.left > 0) throw new XdrError(`${this.left} bytes too many`)
  }
}

export interface Codec<T> {
  /** The encoded form: `i32 u64 text ?(text u32) [..] bytes o16`. */
  readonly shape: string
  write(to: XdrWriter, value: T): void
  read(from: XdrReader): T
}

/** The value a codec carries. */
export type Of<C> = C extends Codec<infer T> ? T : never

export const i32: Codec<number> = { shape: 'i32', write: (to, value) => to.i32(value), read: (from) => from.i32() }
export const u32: Codec<number> = { shape: 'u32', write: (to, value) => to.u32(value), read: (from) => from.u32() }
export const i64: Codec<bigint> = { shape: 'i64', write: (to, value) => to.i64(value), read: (from) => from.i64() }
export const u64: Codec<bigint> = { shape: 'u64', write: (to, value) => to.u64(value), read: (from) => from.u64() }
export const f64: Codec<number> = { shape: 'f64', write: (to, value) => to.f64(value), read: (from) => from.f64() }
export const text: Codec<string> = { shape: 'text', write: (to, value) => to.text(value), read: (from) => from.text() }

/** An i32 that means yes or no. */
export const flag: Codec<boolean> = {
  shape: 'i32',
  write: (to, value) => to.i32(value ? 1 : 0),
  read: (from) => from.i32() !== 0,
}

/** Bytes with their length before them. The decoded value is a copy, so it outlives its frame. */
export const bytes: Codec<Uint8Array> = {
  shape: 'bytes',
  write: (to, value) => {
    to.u32(value.length)
    to.fixed(value)
  },
  read: (from) => Uint8Array.from(from.fixed(from.u32())),
}

const uuidForm = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

/** Sixteen bytes, represented as a lowercase string with dashes. */
export const uuid: Codec<string> = {
  shape: 'o16',
  write: (to, value) => {
    if (!uuidForm.test(value)) throw new XdrError(`not a lowercase UUID: ${value}`)
    to.fixed(Buffer.from(value.replaceAll('-', ''), 'hex'))
  },
  read: (from) =>
    from
      .fixed(16)
      .toString('hex')
      .replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5'),
}

/** A fixed number of C characters, each in its own word; the text ends at the first NUL. */
export function characters(count: number): Codec<string> {
  return {
    shape: Array(count).fill('i32').join(' '),
    write: (to, value) => {
      const ascii = Buffer.from(value, 'latin1')
      for (let at = 0; at < count; at++) to.i32(ascii[at] ?? 0)
    },
    read: (from) => {
      const codes = Array.from({ length: count }, () => from.i32() & 0xff)
      const end = codes.indexOf(0)
      return Buffer.from(end < 0 ? codes : codes.slice(0, end)).toString('latin1')
    },
  }
}

/** A value that may be missing; missing is undefined. */
export function optional<T>(inner: Codec<T>): Codec<T | undefined> {
  return {
    shape: `?(${inner.shape})`,
    write: (to, value) => {
      to.u32(value === undefined ? 0 : 1)
      if (value !== undefined) inner.write(to, value)
    },
    read: (from) => (from.u32() === 0 ? undefined : inner.read(from)),
  }
}

/** A list. Its count is checked against the remaining bytes before memory is allocated. */
export function list<T>(inner: Codec<T>): Codec<T[]> {
  return {
    shape: `[${inner.shape}]`,
    write: (to, values) => {
      to.u32(values.length)
      for (const value of values) inner.write(to, value)
    },
    read: (from) => {
      const count = from.u32()
      if (count > from.left / 4) throw new XdrError(`a list of ${count} in ${from.left} bytes`)
      return Array.from({ length: count }, () => inner.read(from))
    },
  }
}

/** Named fields, one after the other. */
export function record<F extends Record<string, Codec<unknown>>>(fields: F): Codec<{ [K in keyof F]: Of<F[K]> }> {
  const entries = Object.entries(fields) as unknown as [keyof F & string, Codec<unknown>][]
  return {
    shape: entries.map(([, codec]) => codec.shape).join(' '),
    write: (to, value) => {
      for (const [name, codec] of entries) codec.write(to, value[name])
    },
    read: (from) => {
      const value: Partial<Record<keyof F, unknown>> = {}
      for (const [name, codec] of entries) value[name] = codec.read(from)
      return value as { [K in keyof F]: Of<F[K]> }
    },
  }
}

export type TypedValue =
  | { type: 'i32' | 'u32' | 'f64'; value: number }
  | { type: 'i64' | 'u64'; value: bigint }
  | { type: 'flag'; value: boolean }
  | { type: 'text'; value: string }

const variants = { 1: i32, 2: u32, 3: i64, 4: u64, 5: f64, 6: flag, 7: text } as const
const variantNames = ['i32', 'u32', 'i64', 'u64', 'f64', 'flag', 'text'] as const

/** A value that names its own type. */
export const typedValue: Codec<TypedValue> = {
  shape: `{${Object.entries(variants)
    .map(([tag, codec]) => `${tag}:${codec.shape}`)
    .join(' ')}}`,
  write: (to, { type, value }) => {
    const tag = (variantNames.indexOf(type) + 1) as keyof typeof variants
    to.i32(tag)
    ;(variants[tag] as Codec<unknown>).write(to, value)
  },
  read: (from) => {
    const tag = from.i32()
    const type = variantNames[tag - 1]
    if (type === undefined) throw new XdrError(`a typed value of the unknown type ${tag}`)
    return { type, value: variants[tag as keyof typeof variants].read(from) } as TypedValue
  },
}
