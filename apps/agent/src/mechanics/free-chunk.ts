// Memory of what a socket has read. Node allocates each chunk outside of V8's heap, and V8 runs a full collection after every
// few megabytes of them: that cost a transfer two fifths of its processor time.

/** Frees a chunk that nothing uses any more. A chunk that shares its memory with others is left to the garbage collector. */
export function freeChunk({ buffer, byteOffset, length }: Buffer): void {
  const isWhole = byteOffset === 0 && length === buffer.byteLength
  if (isWhole && buffer instanceof ArrayBuffer && !buffer.detached) buffer.transfer(0)
}
