// What is pasted reaches the guest as it was written. RFB has a carriage return at the end of each line and a NUL at the
// end of all, and noVNC makes it so; QEMU hands both on, and a terminal in the guest would take each line for two.
import RFB from '@novnc/novnc'

/** The extended clipboard's words for: here is a text. */
const hereIsText = [0x10, 0, 0, 1]

/** Has noVNC send texts as they are, from now on. */
export function pasteAsWritten(): void {
  const { messages } = RFB
  messages.extendedClipboardProvide = (socket, _formats, [text = '']) => {
    void packed(text).then((bytes) => messages.clientCutText(socket, bytes, true))
  }
}

/** Its length and itself, deflated, behind those words. */
async function packed(text: string): Promise<Uint8Array> {
  const bytes = new TextEncoder().encode(text)
  const length = new DataView(new ArrayBuffer(4))
  length.setUint32(0, bytes.length)
  const deflated = new Blob([length, bytes]).stream().pipeThrough(new CompressionStream('deflate'))
  const message = new Blob([Uint8Array.from(hereIsText), await new Response(deflated).blob()])
  return new Uint8Array(await message.arrayBuffer())
}
