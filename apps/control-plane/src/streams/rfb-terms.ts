// What a viewer and a screen have negotiated, as far as the length of the screen's messages depends on it. Pure.

/** A message of unknown length: nothing after it can be parsed. */
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
  /** Chosen by the viewer before the screen continues. */
  version: RfbVersion | undefined
  #pixelBytes: number | undefined
  #isSettled = false

  /** The screen's own pixel format, used unless the viewer requests another. */
  offer(format: Buffer): void {
    this.#pixelBytes ??= bytesOf(format)
  }

  /**
   * The viewer's requested pixel format. It must not change the pixel size once pictures may arrive: the filter could not know
   * which pictures have which size.
   */
  request(format: Buffer): void {
    const bytes = bytesOf(format)
    if (bytes === undefined) throw new RfbBreach('a form of pixels that is not shown to viewers')
    if (this.#isSettled && bytes !== this.#pixelBytes) throw new RfbBreach('a new size of pixels among pictures')
    this.#pixelBytes = bytes
  }

  /** From now on pictures may arrive. */
  settle(): void {
    this.#isSettled = true
  }

  get pixelBytes(): number {
    return this.#pixelBytes ?? unknownSize()
  }

  /** Tight omits the fourth byte, which holds no colour. */
  get tightPixelBytes(): number {
    return this.pixelBytes === 4 ? 3 : this.pixelBytes
  }
}

function unknownSize(): never {
  throw new RfbBreach('a picture of pixels whose size nobody said', 'screen')
}

/**
 * Bytes of a pixel in a PIXEL_FORMAT, for the formats on which RFC 6143 and QEMU agree: true colour, and three colours of 8
 * bits if a pixel has 32 bits.
 */
function bytesOf(format: Buffer): number | undefined {
  const [bits, depth, , isTrueColour] = format
  if (!isTrueColour) return undefined
  if (bits === 8 || bits === 16) return bits / 8
  const isPlain = depth === 24 && [4, 6, 8].every((at) => format.readUInt16BE(at) === 255)
  return bits === 32 && isPlain ? 4 : undefined
}
