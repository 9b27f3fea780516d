// How long each message is that a client sends to a screen, after the handshake: RFC 6143, and the extensions that QEMU and
// noVNC have (github.com/rfbproto/rfbproto). Pure.

interface Message {
  /** The bytes needed to know its length. */
  head: number
  /** Its length; undefined if it is not known. */
  length: (bytes: Uint8Array, at: number) => number | undefined
}

const fixed = (bytes: number): Message => ({ head: 1, length: () => bytes })
const int16 = (bytes: Uint8Array, at: number): number => (bytes[at]! << 8) | bytes[at + 1]!
const int32 = (bytes: Uint8Array, at: number): number => (int16(bytes, at) << 16) | int16(bytes, at + 2)

/** By their first byte. */
export const clientMessages = {
  setPixelFormat: 0,
  setEncodings: 2,
  pictureRequest: 3,
  key: 4,
  pointer: 5,
  cutText: 6,
  continuousUpdates: 150,
  fence: 248,
  /** Shutdown, reboot, reset. */
  power: 250,
  setSize: 251,
  /** Extended keys, audio. */
  qemu: 255,
} as const

const messages: Readonly<Record<number, Message>> = {
  [clientMessages.setPixelFormat]: fixed(20),
  [clientMessages.setEncodings]: { head: 4, length: (bytes, at) => 4 + 4 * int16(bytes, at + 2) },
  [clientMessages.pictureRequest]: fixed(10),
  [clientMessages.key]: fixed(8),
  [clientMessages.pointer]: fixed(6),
  /** An extended one counts its bytes below zero. */
  [clientMessages.cutText]: { head: 8, length: (bytes, at) => 8 + Math.abs(int32(bytes, at + 4)) },
  [clientMessages.continuousUpdates]: fixed(10),
  [clientMessages.fence]: { head: 9, length: (bytes, at) => 9 + bytes[at + 8]! },
  [clientMessages.power]: fixed(4),
  [clientMessages.setSize]: { head: 8, length: (bytes, at) => 8 + 16 * bytes[at + 6]! },
  [clientMessages.qemu]: { head: 4, length: qemuLength },
}

function qemuLength(bytes: Uint8Array, at: number): number | undefined {
  const kind = bytes[at + 1]
  if (kind === 0) return 12
  return kind === 1 ? (bytes[at + 3] === 2 ? 10 : 4) : undefined
}

/** The length of the message that starts there; `more` if more bytes are needed to know it, `unknown` for a message that is not known. */
export function clientMessageLength(bytes: Uint8Array, at: number): number | 'more' | 'unknown' {
  const message = messages[bytes[at]!]
  if (!message) return 'unknown'
  if (bytes.length - at < message.head) return 'more'
  return message.length(bytes, at) ?? 'unknown'
}

/** Pseudo-encoding: with it, a pointer message may be one byte longer. */
export const extendedMouseButtons = -316
