// Moves the keyboard focus from the desktop to the page's bar and back. In the desktop every key is the desktop's, Tab too.

export interface KeyboardExitParts {
  bar: HTMLElement
  /** Returns the focus to the desktop. */
  back(): void
}

/** Ctrl, Alt and Shift, pressed together and released, focus the bar; Escape returns. */
export function bindKeyboardExit({ bar, back }: KeyboardExitParts): void {
  let leaves = false
  addEventListener(
    'keydown',
    ({ key, ctrlKey, altKey, shiftKey }) => {
      leaves = ctrlKey && altKey && shiftKey && ['Control', 'Alt', 'Shift', 'Meta'].includes(key)
    },
    { capture: true },
  )
  addEventListener(
    'keyup',
    ({ ctrlKey, altKey, shiftKey }) => {
      // Not before the desktop has seen all three released.
      if (!leaves || ctrlKey || altKey || shiftKey) return
      leaves = false
      bar.querySelector<HTMLElement>('button:not([hidden], :disabled)')?.focus()
    },
    { capture: true },
  )
  bar.addEventListener('keydown', ({ key }) => {
    if (key === 'Escape') back()
  })
}
