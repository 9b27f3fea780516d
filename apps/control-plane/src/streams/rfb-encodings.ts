// The encodings that the filter can follow: those of QEMU whose lengths are explicit, or follow from width, height and
// pixel size. Reads no pixel. RFC 6143 and github.com/rfbproto/rfbproto.
import { pass, peek, type Script } from './rfb-script.ts'
import { RfbBreach, type RfbTerms } from './rfb-terms.ts'

interface Rectangle {
  width: number
  height: number
}
type Body = (rectangle: Rectangle, terms: RfbTerms) => Script

export const lastRectangle = -224

/** What follows the head of a rectangle, by its encoding. */
export const bodies: Readonly<Record<number, Body>> = {
  /** Raw */
  0: function* ({ width, height }, terms) {
    yield pass(width * height * terms.pixelBytes)
  },
  /** CopyRect */
  1: function* () {
    yield pass(4)
  },
  /** Zlib */
  6: counted,
  /** Tight */
  7: (rectangle, terms) => tight(rectangle, terms, [jpeg]),
  /** ZRLE */
  16: counted,
  /** DesktopSize */
  [-223]: function* () {},
  [lastRectangle]: function* () {},
  /** Cursor: its pixels, and a bit for each that is seen. */
  [-239]: function* ({ width, height }, terms) {
    yield pass(width * height * terms.pixelBytes + Math.ceil(width / 8) * height)
  },
  /** TightPNG */
  [-260]: (rectangle, terms) => tight(rectangle, terms, [jpeg, png]),
}

/** Quality and compression: they change no form. */
const isHint = (encoding: number): boolean =>
  (encoding >= -32 && encoding <= -23) || (encoding >= -256 && encoding <= -247)

/** Whether a viewer may request it. */
export const isFollowed = (encoding: number): boolean => encoding in bodies || isHint(encoding)

function* counted(): Script {
  yield pass(4 + (yield peek(4)).readUInt32BE(0))
}

const fill = 8
const jpeg = 9
const png = 10
const palette = 1
/** Shorter data is neither compressed nor prefixed with a length. */
const leastCompressed = 12

function* tight(rectangle: Rectangle, terms: RfbTerms, pictures: number[]): Script {
  const kind = (yield peek(1))[0]! >> 4
  const isBasic = kind < fill
  if (!isBasic && kind !== fill && !pictures.includes(kind)) throw unknown(`a rectangle of Tight’s kind ${kind}`)
  yield pass(1)
  const bytes = isBasic ? yield* filtered(rectangle, terms, (kind & 4) !== 0) : terms.tightPixelBytes
  if (kind === fill || (isBasic && bytes < leastCompressed)) yield pass(bytes)
  else yield* compact()
}

/** Passes the filter's parameters; returns the size of the data before compression. */
function* filtered({ width, height }: Rectangle, terms: RfbTerms, isNamed: boolean): Script<number> {
  const filter = isNamed ? (yield peek(1))[0]! : 0
  if (filter > 2) throw unknown(`Tight’s filter ${filter}`)
  if (isNamed) yield pass(1)
  if (filter !== palette) return width * height * terms.tightPixelBytes
  const colours = (yield peek(1))[0]! + 1
  yield pass(1 + colours * terms.tightPixelBytes)
  return (colours <= 2 ? Math.ceil(width / 8) : width) * height
}

/** Passes data with Tight's compact length: one to three bytes, seven bits each, eight in the third. */
function* compact(): Script {
  let bytes = 0
  for (let i = 0; i < 3; i++) {
    const next = (yield peek(1))[0]!
    yield pass(1)
    bytes += (i < 2 ? next & 127 : next) << (7 * i)
    if (next < 128) break
  }
  yield pass(bytes)
}

/** A message of the screen that the filter cannot follow. */
export const unknown = (what: string): RfbBreach => new RfbBreach(`the screen said ${what}`, 'screen')
