// The bytes of the messages that a client of QEMU's screen sends: RFC 6143, and github.com/rfbproto/rfbproto. Pure.
import { deflateSync, inflateSync } from 'node:zlib'
import type { Point } from '@dormouse/contract'

/** QEMU passes keys on to the guest one by one, this long apart. */
export const qemuKeyMs = 10

export const encodings = {
  raw: 0,
  desktopSize: -223,
  qemuKeys: -258,
  qemuLeds: -261,
  extendedClipboard: 0xc0a1e5ce | 0,
} as const

/** 32 bits a pixel, little-endian, red at 16, green at 8, blue at 0. */
export const pixelFormat = Buffer.from([0, 0, 0, 0, 32, 24, 0, 1, 0, 255, 0, 255, 0, 255, 16, 8, 0, 0, 0, 0])

export function setEncodings(list: readonly number[]): Buffer {
  const message = Buffer.alloc(4 + 4 * list.length)
  message[0] = 2
  message.writeUInt16BE(list.length, 2)
  for (const [i, encoding] of list.entries()) message.writeInt32BE(encoding, 4 + 4 * i)
  return message
}

export function pictureRequest(incremental: boolean, width: number, height: number): Buffer {
  const message = Buffer.alloc(10)
  message.set([3, incremental ? 1 : 0])
  message.writeUInt16BE(width, 6)
  message.writeUInt16BE(height, 8)
  return message
}

/**
 * QEMU's extended key event. It has no keysym: for a letter with one, QEMU would press Caps Lock if it believes that this is
 * needed.
 */
export function keyEvent(code: number, down: boolean): Buffer {
  const message = Buffer.alloc(12)
  message.set([255, 0, 0, down ? 1 : 0])
  message.writeUInt32BE(code, 8)
  return message
}

/**
 * QEMU scales a pixel to the range of its tablet, and the guest scales it back. Both round down, so that a pixel arrives as the
 * one before it. The next pixel arrives as this one.
 */
export function pointerEvent({ x, y }: Point, mask: number): Buffer {
  const message = Buffer.alloc(6)
  message.set([5, mask])
  message.writeUInt16BE(x + 1, 2)
  message.writeUInt16BE(y + 1, 4)
  return message
}

/** Flags of the extended clipboard. */
export const clipboardFlags = {
  text: 1,
  caps: 1 << 24,
  request: 1 << 25,
  notify: 1 << 27,
  provide: 1 << 28,
} as const

const clipboardMessage = (flags: number, body: Buffer = Buffer.alloc(0)): Buffer => {
  const head = Buffer.alloc(12)
  head[0] = 6
  head.writeInt32BE(-(4 + body.length), 4)
  head.writeInt32BE(flags, 8)
  return Buffer.concat([head, body])
}

export const clipboardRequest = (): Buffer => clipboardMessage(clipboardFlags.request | clipboardFlags.text)

export const clipboardNotice = (): Buffer => clipboardMessage(clipboardFlags.notify | clipboardFlags.text)

/** Unchanged: RFB ends lines in CRLF and the text in NUL, but QEMU passes both on, and programs would paste them. */
export function clipboardText(text: string): Buffer {
  const bytes = Buffer.from(text)
  const counted = Buffer.alloc(4 + bytes.length)
  counted.writeUInt32BE(bytes.length, 0)
  bytes.copy(counted, 4)
  return clipboardMessage(clipboardFlags.provide | clipboardFlags.text, deflateSync(counted))
}

/** The text of a `provide`; undefined if it has none. */
export function textProvided(body: Buffer, maxBytes: number): string | undefined {
  try {
    const bytes = inflateSync(body, { maxOutputLength: maxBytes + 5 })
    const text = bytes.subarray(4, 4 + bytes.readUInt32BE(0)).toString('utf8')
    return text.replace(/\0$/, '').replaceAll('\r\n', '\n')
  } catch {
    return undefined
  }
}
