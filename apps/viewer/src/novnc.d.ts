// What the page uses of noVNC, which comes without types.
declare module '@novnc/novnc' {
  interface RfbEvents {
    connect: CustomEvent
    disconnect: CustomEvent<{ clean: boolean }>
    clipboard: CustomEvent<{ text: string }>
  }
  export default class RFB extends EventTarget {
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
