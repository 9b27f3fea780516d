// Sends pasted text to the guest unchanged. RFB ends each line with a carriage return and the text with a NUL, and noVNC
// converts texts so. QEMU passes both on, and a terminal in the guest would read each line as two.

/** noVNC's clipboard messages; the text is sent when the screen requests it. */
export interface ClipboardMessages {
  extendedClipboardProvide(socket: unknown, formats: number[], texts: string[]): void
  extendedClipboardCaps(socket: unknown, actions: number[], formats: object): void
  clientCutText(socket: unknown, data: Uint8Array, extended: boolean): void
}

/** QEMU closes the connection on a clipboard message above 1 MiB. */
const mostBytes = 1_000_000

export const isTooLong = (text: string): boolean => new TextEncoder().encode(text).length > mostBytes

/** The extended clipboard's flags for: here is a text. */
const hereIsText = [0x10, 0, 0, 1]
/** zlib's header (RFC 1950): deflate with a window of 32 KiB. A stored block (RFC 1951) holds at most 65,535 bytes. */
const zlibHead = [0x78, 0x01]
const blockBytes = 0xffff

/**
 * Makes noVNC send texts unchanged. Synchronously: a later answer would be taken for the answer about a text that was
 * offered meanwhile.
 */
export function pasteAsWritten(messages: ClipboardMessages): void {
  messages.extendedClipboardProvide = (socket, _formats, [text = '']) =>
    messages.clientCutText(socket, packed(text), true)
}

/** Calls back when a screen has announced its clipboard's capabilities. Until then noVNC sends Latin-1, and "?" for the rest. */
export function whenAble(messages: ClipboardMessages, able: () => void): void {
  const { extendedClipboardCaps: answer } = messages
  messages.extendedClipboardCaps = (...words) => {
    answer(...words)
    able()
  }
}

/** Flags, length and text, in stored blocks of zlib: the browser's own compression is asynchronous. */
function packed(text: string): Uint8Array {
  const written = new TextEncoder().encode(text)
  const plain = Uint8Array.from([...uint32(written.length), ...written])
  const blocks = Array.from({ length: Math.ceil(plain.length / blockBytes) }, (_, i) => {
    const bytes = plain.subarray(i * blockBytes, (i + 1) * blockBytes)
    const isLast = (i + 1) * blockBytes >= plain.length
    return [...blockHead(bytes.length, isLast), ...bytes]
  })
  return Uint8Array.from([...hereIsText, ...zlibHead, ...blocks.flat(), ...uint32(adler32(plain))])
}

const blockHead = (length: number, isLast: boolean): number[] => {
  const [low, high] = [length & 255, length >> 8]
  return [isLast ? 1 : 0, low, high, low ^ 255, high ^ 255]
}

function adler32(bytes: Uint8Array): number {
  let [a, b] = [1, 0]
  for (const byte of bytes) {
    a = (a + byte) % 65_521
    b = (b + a) % 65_521
  }
  return b * 65_536 + a
}

const uint32 = (value: number): number[] => [value >>> 24, (value >>> 16) & 255, (value >>> 8) & 255, value & 255]
