// Cursors: positions in the log of events, as clients see them. Their form is opaque to clients.

/** Everything up to this event. */
export interface Position {
  /** Which database the number belongs to: another one after a restore or a failover. */
  lineage: string
  seq: number
}

const form = /^([0-9a-f]{8})([0-9a-z]{1,11})$/

export const cursorOf = ({ lineage, seq }: Position): string => `${lineage}${seq.toString(36)}`

/** Undefined if the text was never a cursor. */
export function parseCursor(text: string): Position | undefined {
  const [, lineage, seq] = form.exec(text) ?? []
  const number = Number.parseInt(seq ?? '', 36)
  return lineage && Number.isSafeInteger(number) ? { lineage, seq: number } : undefined
}
