// A path in a desktop, as a command's argument.

export interface GuestPlace {
  id: string
  path: string
}

/** `<id>:<path>`; the path needs no leading slash, and none is the root. Undefined for anything else. */
export function guestPlace(text: string): GuestPlace | undefined {
  const [, id, path] = /^([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}):(.*)$/is.exec(text) ?? []
  return id ? { id, path: path || '/' } : undefined
}

/** The same for a folder; a desktop alone names its root. */
export const guestFolder = (text: string): GuestPlace | undefined => guestPlace(text) ?? guestPlace(`${text}:`)
