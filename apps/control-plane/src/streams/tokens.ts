// What opens a screen once: random, and kept as a hash only. Pure.
import { hash, randomBytes } from 'node:crypto'

/** 256 random bits as they stand in a URL. */
export const tokenForm = /^[\w-]{43}$/

export function makeToken(): { token: string; hash: Buffer } {
  const token = randomBytes(32).toString('base64url')
  return { token, hash: hashOf(token) }
}

export const hashOf = (token: string): Buffer => hash('sha256', token, 'buffer')
