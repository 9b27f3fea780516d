// What the address of a page names. A link may be cut or changed on its way to the browser. Pure.
const form = /^\/screens\/([\da-fA-F]{8}(?:-[\da-fA-F]{4}){3}-[\da-fA-F]{12})\/(view|control)$/

export interface Link {
  desktopId: string
  claim: 'view' | 'control'
}

/** The screen that a path names; undefined if it names none. */
export function linkOf(path: string): Link | undefined {
  const [, desktopId, claim] = form.exec(path) ?? []
  return desktopId ? { desktopId, claim: claim as Link['claim'] } : undefined
}
