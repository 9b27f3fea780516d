// Creates and recognises API keys. Pure.
import { createHash, randomBytes } from 'node:crypto'
import { crc32 } from 'node:zlib'

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const secretLength = 43
const checksumLength = 6

export const keyPrefixes = { customer: 'svc_sk_', operator: 'svc_op_' } as const
export type KeyKind = keyof typeof keyPrefixes

const base62 = (value: bigint, length: number): string => {
  let text = ''
  for (let rest = value; text.length < length; rest /= 62n) text = alphabet[Number(rest % 62n)] + text
  return text
}

const checksum = (text: string): string => base62(BigInt(crc32(text)), checksumLength)

/** A new key: prefix, 256 random bits in base62, checksum. It is shown once; only a hash is stored. */
export function makeKey(kind: KeyKind): string {
  const body = keyPrefixes[kind] + base62(BigInt(`0x${randomBytes(32).toString('hex')}`), secretLength)
  return body + checksum(body)
}

const shape = new RegExp(`^(svc_sk_|svc_op_)[0-9A-Za-z]{${secretLength + checksumLength}}$`)

/** The kind of a well-formed key; undefined for garbage, which costs no look-up. */
export function kindOf(key: string): KeyKind | undefined {
  if (!shape.test(key)) return undefined
  if (checksum(key.slice(0, -checksumLength)) !== key.slice(-checksumLength)) return undefined
  return key.startsWith(keyPrefixes.customer) ? 'customer' : 'operator'
}

/** The key as stored. A look-up by hash needs no constant-time comparison: the hash reveals nothing of the key. */
export const hashOf = (key: string): Buffer => createHash('sha256').update(key).digest()

/**
 * A key with limits as stored. Release 0.1.0 knows no limits and looks keys up by `hashOf` alone, so it refuses these: a replica that
 * was taken back must not let such a key do everything.
 */
export const limitedHashOf = (key: string): Buffer => createHash('sha256').update(`limited:${key}`).digest()
