// Memory of bytes that were handed on. Knows nothing of what they were.

/**
 * Gives the memory of bytes that nobody needs any more back at once, where it is theirs alone. Otherwise the collector
 * counts it, and for each few dozen megabytes runs over all that the process holds: pictures are that many in seconds.
 */
export function letGo({ buffer, byteLength }: Buffer): void {
  if (buffer instanceof ArrayBuffer && buffer.byteLength === byteLength) buffer.transfer(0)
}
