// The clipboard of a page that controls: text copied in the desktop comes out, text written here goes in. Browsers give a
// page the real clipboard only if the user allows it; the panel works everywhere.
import { isTooLong } from './paste.ts'

export interface ClipboardParts {
  button: HTMLButtonElement
  panel: HTMLElement
  text: HTMLTextAreaElement
  /** Shown for a text that is too long for a desktop. */
  tooLong: HTMLElement
  /** Sends the text to the desktop. */
  paste(text: string): void
  /** Called when Escape closes the panel. */
  closed(): void
}

export class Clipboard {
  readonly #parts: ClipboardParts
  #last = ''

  constructor(parts: ClipboardParts) {
    this.#parts = parts
    const { button, panel, text } = parts
    button.hidden = false
    button.addEventListener('click', () => this.#show(panel.hidden === true))
    text.addEventListener('input', () => this.#send(text.value))
    panel.addEventListener('keydown', ({ key }) => {
      if (key !== 'Escape') return
      this.#show(false)
      parts.closed()
    })
    addEventListener('focus', () => void this.#readOwn())
  }

  /** Without a live desktop nothing can be pasted. A new connection has no earlier texts. */
  enable(isLive: boolean): void {
    this.#parts.button.disabled = !isLive
    if (isLive) return
    this.#last = ''
    this.#show(false)
  }

  #show(isShown: boolean): void {
    const { button, panel, text } = this.#parts
    panel.hidden = !isShown
    button.setAttribute('aria-expanded', String(isShown))
    if (isShown) text.focus()
  }

  /** The desktop copied something. */
  receive(text: string): void {
    this.#last = text
    this.#parts.text.value = text
    this.#parts.tooLong.hidden = true
    // Only a focused page with permission may write; the panel shows the text in any case.
    navigator.clipboard?.writeText(text).catch(() => undefined)
  }

  /** Called once the desktop accepts all characters: a text sent before may have arrived garbled. */
  sendAgain(): void {
    if (this.#last !== '') this.#parts.paste(this.#last)
  }

  /** Sends text that was copied elsewhere, if the browser lets this page read the clipboard. */
  async #readOwn(): Promise<void> {
    if (this.#parts.button.disabled) return
    const { state } = await navigator.permissions
      .query({ name: 'clipboard-read' as PermissionName })
      .catch(() => ({ state: 'denied' }))
    if (state !== 'granted') return
    const text = await navigator.clipboard.readText().catch(() => '')
    if (text !== '') this.#send(text)
  }

  #send(text: string): void {
    if (text === this.#last) return
    this.#last = isTooLong(text) ? '' : text
    const { text: box, tooLong, paste } = this.#parts
    box.value = text
    tooLong.hidden = !isTooLong(text)
    if (tooLong.hidden) paste(text)
  }
}
