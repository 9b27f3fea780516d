// Opens a link as this host would, and closes it before anything is said over it.
import { linkChallenge, linkSubprotocol } from '@dormouse/contract'
import { DialRefused, dial, type Handshake } from '@dormouse/link'
import type { Identity } from './identity.ts'
import { prove } from './prove.ts'
import { linkUrl } from './transport.ts'

/**
 * Resolves if the control plane accepts this host's proof; without an identity, if it asks for one. Otherwise rejects with
 * DialRefused.
 */
export async function tryLink(url: string, identity: Identity | undefined): Promise<void> {
  const { nextKey } = identity ?? {}
  await tryKey(url, identity).catch((error: unknown) => {
    if (!identity || !nextKey || !(error instanceof DialRefused) || error.status !== 401) throw error
    return tryKey(url, { ...identity, key: nextKey })
  })
}

async function tryKey(url: string, identity: Identity | undefined): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const beAsked = async (hands: Handshake) => {
    linkChallenge.parse(JSON.parse(await hands.hear()))
    resolve()
    throw new Error('this host has no identity')
  }
  const line = dial({
    url: linkUrl(url),
    protocols: [linkSubprotocol],
    prove: identity ? (hands) => prove(hands, identity) : beAsked,
  })
  line.on('peer', () => resolve()).on('refused', (error: DialRefused) => reject(error))
  await promise.finally(() => line.close())
}
