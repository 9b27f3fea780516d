// A simulated disk or memory as bytes: what is known of it as one line of JSON, then an archive of its files.

const newline = 10

export const packed = (head: unknown, archive: Buffer = Buffer.alloc(0)): Buffer =>
  Buffer.concat([Buffer.from(`${JSON.stringify(head)}\n`), archive])

/** Throws a SyntaxError if it is something else. */
export function unpacked(bytes: Buffer): { head: unknown; archive: Buffer } {
  const end = bytes.indexOf(newline)
  return { head: JSON.parse(bytes.toString('utf8', 0, Math.max(end, 0))), archive: bytes.subarray(end + 1) }
}
