// Frees the memory of bytes that have been passed on. Knows nothing of the bytes.

/**
 * Frees the memory of bytes at once, if they share it with nothing else. Otherwise the garbage collector counts it, and
 * scans the whole heap after every few dozen megabytes. A screen sends that much within seconds.
 */
export function freeMemory({ buffer, byteLength }: Buffer): void {
  if (buffer instanceof ArrayBuffer && buffer.byteLength === byteLength) buffer.transfer(0)
}
