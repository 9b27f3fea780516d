// Converts a picture of a screen from the hypervisor's format to PNG. Pure.
import { refuse } from '@dormouse/contract'
import { PNG } from 'pngjs'

export interface Pixels {
  width: number
  height: number
  /** Red, green, blue, one byte each. */
  rgb: Buffer
}

const maxSide = 16_384

/** Reads a binary PPM (`P6`, 8 bits a colour). */
export function readPpm(bytes: Buffer): Pixels {
  const header = /^P6\s(?:#.*\n)*(\d+)\s+(\d+)\s+255\s/.exec(bytes.subarray(0, 512).toString('latin1'))
  const [width, height] = [Number(header?.[1]), Number(header?.[2])]
  const rgb = bytes.subarray(header?.[0].length)
  const sound = width > 0 && height > 0 && width <= maxSide && height <= maxSide
  if (!sound || rgb.length !== width * height * 3) {
    return refuse('hypervisor_failed', 'the hypervisor’s picture of the screen is not whole')
  }
  return { width, height, rgb }
}

/** Encodes pixels as PNG, on zlib's own threads. */
export async function toPng({ width, height, rgb }: Pixels): Promise<Buffer> {
  const png = new PNG({ width, height, inputHasAlpha: false, inputColorType: 2, colorType: 2, deflateLevel: 6 })
  png.data = rgb
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>()
  const chunks: Buffer[] = []
  png.on('data', (chunk: Buffer) => chunks.push(chunk))
  png.on('end', () => resolve(Buffer.concat(chunks)))
  png.on('error', reject)
  png.pack()
  return promise
}
