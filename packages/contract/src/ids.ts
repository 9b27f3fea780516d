// Identifiers: how they are made and what is accepted at the doors.
import { randomFillSync } from 'node:crypto'
import { z } from 'zod'

export type DesktopId = string
export type OperationId = string
export type OrgId = string
export type HostId = string
export type GenerationId = string

const pattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/** Any UUID in hex-and-dash form; the canonical form is lower case. */
export const id = z.string().regex(pattern, 'must be a UUID').toLowerCase()

/** Whether the text is a UUID in hex-and-dash form, in any case. */
export const isId = (text: string): boolean => pattern.test(text)

const bytes = Buffer.alloc(16)

/** A new UUIDv7: sorts by the millisecond it was made in. */
export function newId(now = Date.now()): string {
  randomFillSync(bytes)
  bytes.writeUIntBE(now, 0, 6)
  bytes[6] = (bytes[6]! & 0x0f) | 0x70
  bytes[8] = (bytes[8]! & 0x3f) | 0x80
  const hex = bytes.toString('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
}
