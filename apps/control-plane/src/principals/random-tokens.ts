// Creates random tokens that open one thing each: a screen, or a file. Only their hash is stored. Pure.
import { hash, randomBytes } from 'node:crypto'

/** 256 random bits in base64url. */
export const tokenForm = /^[\w-]{43}$/

export function makeToken(): { token: string; hash: Buffer } {
  const token = randomBytes(32).toString('base64url')
  return { token, hash: hashOf(token) }
}

export const hashOf = (token: string): Buffer => hash('sha256', token, 'buffer')
