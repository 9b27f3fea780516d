// Shows the desktop in full screen, with all keys captured if the browser allows it. Otherwise Escape leaves full screen
// and never reaches the desktop, and Alt+Tab stays the browser's own.

/** Chromium only, in secure contexts. */
interface Keyboard {
  lock(): Promise<void>
}

export interface FullScreenParts {
  button: HTMLElement
  /** False for a page that only views. */
  takesKeys: boolean
  /** Returns the focus to the desktop. */
  back(): void
}

/** Makes the button enter and leave full screen. With all keys captured, holding Escape leaves it. */
export function offerFullScreen({ button, takesKeys, back }: FullScreenParts): void {
  const enter = async () => {
    await document.documentElement.requestFullscreen()
    if (takesKeys) await (navigator as { keyboard?: Keyboard }).keyboard?.lock()
  }
  button.addEventListener('click', () => {
    const change = document.fullscreenElement ? document.exitFullscreen() : enter()
    // A browser may refuse either; the page works without.
    change.catch(() => undefined).finally(back)
  })
  document.addEventListener('fullscreenchange', () => {
    button.textContent = document.fullscreenElement ? 'Leave full screen' : 'Full screen'
  })
}
