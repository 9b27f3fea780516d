// Identifiers: how they are created, and which are accepted.
import { z } from 'zod'

export type DesktopId = string
export type OperationId = string
export type OrgId = string
export type HostId = string
export type GenerationId = string

const pattern = /^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$/

/** Any UUID in hex-and-dash form; the canonical form is lower case. */
export const id = z.string().regex(pattern, 'must be a UUID').toLowerCase().meta({ format: 'uuid' })

/** Whether the text is a UUID in hex-and-dash form, in any case. */
export const isId = (text: string): boolean => pattern.test(text)

/** A new UUIDv7: sorts by its creation time, in milliseconds. */
export function newId(now = Date.now()): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  const stamp = now.toString(16).padStart(12, '0')
  bytes[6] = (bytes[6]! & 0x0f) | 0x70
  bytes[8] = (bytes[8]! & 0x3f) | 0x80
  const random = Array.from(bytes.subarray(6), (byte) => byte.toString(16).padStart(2, '0')).join('')
  return `${stamp.slice(0, 8)}-${stamp.slice(8)}-${random.slice(0, 4)}-${random.slice(4, 8)}-${random.slice(8)}`
}
