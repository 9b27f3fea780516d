// Headers of a tar archive in GNU's format, which BusyBox reads, too. BusyBox ignores the headers of POSIX, with which libraries write
// names that are long or not ASCII. Pure.

const blockBytes = 512
const nameBytes = 100
/** Octal digits of a size; a larger one is binary. */
const sizeDigits = 11

/** Two blocks of zeros end an archive. */
export const archiveEnd = Buffer.alloc(2 * blockBytes)

/** What fills the last block of a file. */
export const padding = (size: number): Buffer => Buffer.alloc((blockBytes - (size % blockBytes)) % blockBytes)

interface Entry {
  name: string
  mode: number
  size: number
  mtime: Date
}

/** The header of a folder, if the name ends with a slash, or of a file. */
export function tarHeader(entry: Entry): Buffer {
  const name = Buffer.from(entry.name)
  const header = block({ ...entry, name: name.subarray(0, nameBytes) }, entry.name.endsWith('/') ? '5' : '0')
  if (name.length <= nameBytes) return header
  const long = Buffer.concat([name, Buffer.alloc(1)])
  const before = block({ ...entry, name: Buffer.from('././@LongLink'), size: long.length }, 'L')
  return Buffer.concat([before, long, padding(long.length), header])
}

function block({ name, mode, size, mtime }: Omit<Entry, 'name'> & { name: Buffer }, type: string): Buffer {
  const bytes = Buffer.alloc(blockBytes)
  name.copy(bytes)
  bytes.write(octal(mode, 7), 100)
  bytes.write(octal(0, 7), 108)
  bytes.write(octal(0, 7), 116)
  writeSize(bytes, size)
  bytes.write(octal(Math.floor(mtime.getTime() / 1_000), sizeDigits), 136)
  bytes.write(' '.repeat(8), 148)
  bytes.write(type, 156)
  bytes.write('ustar  \0', 257)
  const sum = bytes.reduce((all, byte) => all + byte, 0)
  bytes.write(`${octal(sum, 6)}\0 `, 148)
  return bytes
}

function writeSize(bytes: Buffer, size: number): void {
  if (size < 8 ** sizeDigits) {
    bytes.write(octal(size, sizeDigits), 124)
    return
  }
  bytes[124] = 0x80
  bytes.writeBigUInt64BE(BigInt(size), 128)
}

const octal = (value: number, digits: number): string => value.toString(8).padStart(digits, '0')
