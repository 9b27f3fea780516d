// The desktop on the whole screen, and there with every key, where the browser gives them: otherwise Escape ends the full
// screen and never reaches the desktop, and Alt+Tab is the browser's own.

/** Chromium's, on pages that it trusts. */
interface Keyboard {
  lock(): Promise<void>
}

export interface FullScreenParts {
  button: HTMLElement
  /** Whoever only looks has no use for more keys. */
  takesKeys: boolean
  /** Gives the keyboard back to the desktop. */
  back(): void
}

/** Has the button fill the screen, and leave it again. With every key taken, Escape leaves it when it is held. */
export function offerFullScreen({ button, takesKeys, back }: FullScreenParts): void {
  const enter = async () => {
    await document.documentElement.requestFullscreen()
    if (takesKeys) await (navigator as { keyboard?: Keyboard }).keyboard?.lock()
  }
  button.addEventListener('click', () => {
    const change = document.fullscreenElement ? document.exitFullscreen() : enter()
    // What the browser does not give is done without.
    change.catch(() => undefined).finally(back)
  })
  document.addEventListener('fullscreenchange', () => {
    button.textContent = document.fullscreenElement ? 'Leave full screen' : 'Full screen'
  })
}
