// What a viewer and a screen have agreed on, as far as the length of what the screen says hangs on it. Pure.

/** One side said what has no known length: nothing after it can be told apart. */
export class RfbBreach extends Error {
  override readonly name = 'RfbBreach'
  readonly by: 'viewer' | 'screen'

  constructor(message: string, by: 'viewer' | 'screen' = 'viewer') {
    super(message)
    this.by = by
  }
}

/** The last digit of RFB 003.00x. */
export type RfbVersion = '3' | '7' | '8'

export class RfbTerms {
  /** Chosen by the viewer, before the screen goes on. */
  version: RfbVersion | undefined
  #pixelBytes: number | undefined
  #isSettled = false

  /** The screen's own format, which holds unless the viewer wishes another. */
  offer(format: Buffer): void {
    this.#pixelBytes ??= bytesOf(format)
  }

  /**
   * The viewer's wish. It may not change the size of a pixel once pictures may come: which of them were made before
   * and which after, nobody could tell.
   */
  wish(format: Buffer): void {
    const bytes = bytesOf(format)
    if (bytes === undefined) throw new RfbBreach('a form of pixels that is not shown to viewers')
    if (this.#isSettled && bytes !== this.#pixelBytes) throw new RfbBreach('a new size of pixels among pictures')
    this.#pixelBytes = bytes
  }

  /** From here on pictures may come. */
  settle(): void {
    this.#isSettled = true
  }

  get pixelBytes(): number {
    return this.#pixelBytes ?? nobodySaid()
  }

  /** Tight leaves the fourth byte out, which holds no colour. */
  get tightPixelBytes(): number {
    return this.pixelBytes === 4 ? 3 : this.pixelBytes
  }
}

function nobodySaid(): never {
  throw new RfbBreach('a picture of pixels whose size nobody said', 'screen')
}

/**
 * Bytes of a pixel in a PIXEL_FORMAT, of those formats on which RFC 6143 and QEMU agree: true colour, and where a pixel
 * has 32 bits, three colours of 8.
 */
function bytesOf(format: Buffer): number | undefined {
  const [bits, depth, , isTrueColour] = format
  if (!isTrueColour) return undefined
  if (bits === 8 || bits === 16) return bits / 8
  const isPlain = depth === 24 && [4, 6, 8].every((at) => format.readUInt16BE(at) === 255)
  return bits === 32 && isPlain ? 4 : undefined
}
