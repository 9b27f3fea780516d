// What the page uses of noVNC, which comes without types.
declare module '@novnc/novnc' {
  interface RfbEvents {
    connect: CustomEvent
    disconnect: CustomEvent<{ clean: boolean }>
    clipboard: CustomEvent<{ text: string }>
  }
  export default class RFB extends EventTarget {
    /** What it sends to the screen. */
    static messages: {
      extendedClipboardProvide(socket: unknown, formats: number[], texts: string[]): void
      extendedClipboardCaps(socket: unknown, actions: number[], formats: object): void
      clientCutText(socket: unknown, data: Uint8Array, extended: boolean): void
    }
    constructor(target: HTMLElement, channel: WebSocket, options?: { shared?: boolean })
    viewOnly: boolean
    scaleViewport: boolean
    focusOnClick: boolean
    showDotCursor: boolean
    background: string
    addEventListener<K extends keyof RfbEvents>(type: K, listener: (event: RfbEvents[K]) => void): void
    clipboardPasteFrom(text: string): void
    disconnect(): void
    focus(): void
  }
}
