// How a keyboard leaves the desktop and comes back to it: there every key is the desktop's, the tabulator too.

export interface WayOutParts {
  bar: HTMLElement
  /** Gives the keyboard back to the desktop. */
  back(): void
}

/** Ctrl, Alt and Shift, pressed together and let go, lead to the bar; Escape leads back. */
export function openWayOut({ bar, back }: WayOutParts): void {
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
      // Not before the desktop has seen all three let go.
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
