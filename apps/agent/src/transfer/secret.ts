// TLS between two agents for one move: each side proves that it has the key that the control plane made for this move alone.
// No certificate, no clock and no name is involved. An identity says which move and which stream a connection is for.
import { streamName } from './transfer.ts'

/** Both ends offer this alone. The key is 32 bytes. */
export const tlsOptions = {
  minVersion: 'TLSv1.3',
  maxVersion: 'TLSv1.3',
  ciphers: 'TLS_AES_128_GCM_SHA256',
  allowHalfOpen: true,
} as const

export interface MoveAddress {
  host: string
  port: number
}

export const identityOf = (moveId: string, name: string): string => `${moveId}/${name}`

/** The move and the stream of an identity; undefined if it is not one of ours. */
export function readIdentity(identity: string): { moveId: string; name: string } | undefined {
  const [moveId, name, ...rest] = identity.split('/')
  return moveId && name && streamName.test(name) && rest.length === 0 ? { moveId, name } : undefined
}
