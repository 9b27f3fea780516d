// A path in a desktop, as a command's argument.

export interface GuestPlace {
  id: string
  path: string
}

/** `<id>:<path>`; the path needs no leading slash. Undefined for anything else. */
export function guestPlace(text: string): GuestPlace | undefined {
  const [, id, path] = /^([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}):(.+)$/is.exec(text) ?? []
  return id && path ? { id, path } : undefined
}
