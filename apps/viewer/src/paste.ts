// What is pasted reaches the guest as it was written. RFB has a carriage return at the end of each line and a NUL at the
// end of all, and noVNC makes it so; QEMU hands both on, and a terminal in the guest would take each line for two.

/** What noVNC says of the clipboard; the text is handed on as the screen asks for it. */
export interface ClipboardMessages {
  extendedClipboardProvide(socket: unknown, formats: number[], texts: string[]): void
  extendedClipboardCaps(socket: unknown, actions: number[], formats: object): void
  clientCutText(socket: unknown, data: Uint8Array, extended: boolean): void
}

/** QEMU hangs up on whoever says more than a mebibyte at once. */
const mostBytes = 1_000_000

export const isTooLong = (text: string): boolean => new TextEncoder().encode(text).length > mostBytes

/** The extended clipboard's words for: here is a text. */
const hereIsText = [0x10, 0, 0, 1]
/** deflate's frame (RFC 1950, 1951): a window of 32 KiB; blocks of bytes as they are have at most so many. */
const zlibHead = [0x78, 0x01]
const blockBytes = 0xffff

/**
 * Has noVNC send texts as they are, from now on. At once, while it asks: an answer that came later would be taken for
 * the answer about the text that was offered meanwhile.
 */
export function pasteAsWritten(messages: ClipboardMessages): void {
  messages.extendedClipboardProvide = (socket, _formats, [text = '']) =>
    messages.clientCutText(socket, packed(text), true)
}

/** Says when a screen has told what its clipboard can: before, noVNC sends a text as Latin-1, and the rest of it as "?". */
export function whenAble(messages: ClipboardMessages, able: () => void): void {
  const { extendedClipboardCaps: answer } = messages
  messages.extendedClipboardCaps = (...words) => {
    answer(...words)
    able()
  }
}

/** Its length and itself, deflated, behind those words. What compresses in a browser takes a turn of its own. */
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
