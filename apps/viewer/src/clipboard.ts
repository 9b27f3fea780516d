// The clipboard of whoever controls: what the desktop copies comes out, what is written here goes in. Browsers give a
// page the real clipboard only where they trust it; the panel works everywhere.
import { isTooLong } from './paste.ts'

export interface ClipboardParts {
  button: HTMLButtonElement
  panel: HTMLElement
  text: HTMLTextAreaElement
  /** Said of a text that no desktop takes. */
  tooLong: HTMLElement
  /** To the desktop. */
  paste(text: string): void
  /** The panel was closed by its key. */
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

  /** Nothing can be pasted where there is no desktop; and once it is back, it has forgotten what it was told. */
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
    // Only a page that is looked at and trusted may write; the panel shows it all the same.
    navigator.clipboard?.writeText(text).catch(() => undefined)
  }

  /** Only now does the desktop take every sign: what was written before may not have arrived as it was. */
  sendAgain(): void {
    if (this.#last !== '') this.#parts.paste(this.#last)
  }

  /** What was copied elsewhere can be pasted in the desktop, where the browser has been told to trust this page. */
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
