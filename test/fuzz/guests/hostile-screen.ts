// A screen that breaks the rules of RFB. The same dice make the same bytes.
import type { Socket } from 'node:net'
import type { Dice } from '../dice.ts'

const word = (value: number): Buffer => {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value >>> 0)
  return bytes
}
const half = (value: number): Buffer => Buffer.from([(value >> 8) & 255, value & 255])

const versions = [
  'RFB 003.008\n',
  'RFB 003.008\n',
  'RFB 003.008\n',
  'RFB 003.003\n',
  'RFB 999.999\n',
  'HTTP/1.1 200',
  '\0'.repeat(12),
]
const encodings = [0, 0, 1, 6, 7, 16, -223, -224, -239, -260, 5, 255, -308, -257, 0x7fffffff, -2147483648]
const sides = [0, 1, 2, 64, 800, 65_535]
const lengths = [0, 1, 5, 1_000, 0x7fffffff, 0xffffffff, 0x80000000]

/** What a screen says, from its first byte on; how far it keeps to the rules, chance decides. */
export function screenBytes(dice: Dice): Buffer {
  const messages = Array.from({ length: dice.int(40) }, () => message(dice))
  const whole = Buffer.concat([introduction(dice), ...messages])
  return dice.chance(0.3) ? spoilt(whole, dice) : whole
}

function introduction(dice: Dice): Buffer {
  const types = dice.pick([[1], [1], [1], [2, 1], [], [1, 2, 16, 19], dice.many(200, () => dice.int(256))])
  const named = dice.pick(['screen', '', 'x'.repeat(5_000)])
  return Buffer.concat([
    Buffer.from(dice.pick(versions)),
    Buffer.from([types.length, ...types]),
    word(dice.pick([0, 0, 0, 0, 1, 0xffffffff])),
    half(dice.pick(sides)),
    half(dice.pick(sides)),
    dice.chance(0.8) ? plainFormat : Buffer.from(Array.from({ length: 16 }, () => dice.int(256))),
    word(dice.chance(0.8) ? named.length : dice.pick(lengths)),
    Buffer.from(named),
  ])
}

const plainFormat = Buffer.from([32, 24, 0, 1, 0, 255, 0, 255, 0, 255, 16, 8, 0, 0, 0, 0])

function message(dice: Dice): Buffer {
  const kinds = [
    () => update(dice),
    () => update(dice),
    () => Buffer.from([2]),
    () => Buffer.concat([Buffer.from([3, 0, 0, 0]), word(5), Buffer.from('hello')]),
    () => Buffer.concat([Buffer.from([3, 0, 0, 0]), word(dice.pick(lengths)), dice.bytes(300)]),
    () => Buffer.from([dice.int(256)]),
    () => dice.bytes(200),
  ]
  return dice.pick(kinds)()
}

function update(dice: Dice): Buffer {
  const rectangles = dice.many(6, () => rectangle(dice))
  const count = dice.chance(0.8) ? rectangles.length : dice.pick([0, 65_535])
  return Buffer.concat([Buffer.from([0, 0]), half(count), ...rectangles])
}

function rectangle(dice: Dice): Buffer {
  const [width, height] = [dice.pick(sides), dice.pick(sides)]
  const encoding = dice.pick(encodings)
  const head = Buffer.concat([half(0), half(0), half(width), half(height), word(encoding)])
  const pixels = Buffer.alloc(Math.min(4 * width * height, 100_000), 7)
  const body: Record<number, () => Buffer> = {
    0: () => pixels,
    1: () => Buffer.alloc(4),
    6: () => Buffer.concat([word(dice.pick(lengths)), dice.bytes(200)]),
    7: () => Buffer.concat([Buffer.from([dice.int(256), dice.int(256)]), dice.bytes(200)]),
    16: () => Buffer.concat([word(dice.pick(lengths)), dice.bytes(200)]),
    [-239]: () => pixels,
  }
  return Buffer.concat([head, (body[encoding] ?? (() => Buffer.alloc(0)))()])
}

function spoilt(whole: Buffer, dice: Dice): Buffer {
  const bytes = Buffer.from(whole)
  for (let left = 1 + dice.int(8); left > 0 && bytes.length > 0; left--) bytes[dice.int(bytes.length)] = dice.int(256)
  return dice.chance(0.5) ? bytes.subarray(0, dice.int(bytes.length + 1)) : bytes
}

/** How they come, and what comes of the socket then. */
export function screenManner(bytes: Buffer, dice: Dice): (socket: Socket) => void {
  const pieceBytes = dice.pick([1, 7, 1_000, 65_536])
  const pieces = pieceBytes === 1 ? 200 : 1_000
  const then = dice.pick(['stays', 'stays', 'ends', 'cuts', 'pours'] as const)
  return (socket) => {
    let at = 0
    for (let i = 0; i < pieces && at < bytes.length; i++, at += pieceBytes)
      socket.write(bytes.subarray(at, at + pieceBytes))
    socket.write(bytes.subarray(at))
    if (then === 'ends') socket.end()
    if (then === 'cuts') socket.destroy()
    if (then === 'pours') pour(socket, bytes)
    socket.resume()
  }
}

/** As fast as it is taken. */
function pour(socket: Socket, bytes: Buffer): void {
  const more = () => {
    while (bytes.length > 0 && !socket.destroyed && socket.write(bytes));
  }
  socket.on('drain', more)
  more()
}
