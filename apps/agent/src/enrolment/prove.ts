// Proves to a control plane, on a socket that is to become a link, that this is the host it enrolled.
import { linkAccepted, linkChallenge, linkProof, linkSubprotocols } from '@dormouse/contract'
import type { Handshake } from '@dormouse/link'
import { answerTo, type Identity } from './identity.ts'

/** Signs the control plane's challenge. One of the release before gives none: it has judged by the token already. */
export async function prove(hands: Handshake, identity: Identity): Promise<void> {
  if (hands.protocol !== linkSubprotocols.proof) return
  const { nonce } = linkChallenge.parse(JSON.parse(await hands.hear()))
  const signature = answerTo(nonce, identity)
  hands.say(JSON.stringify(linkProof.parse({ hostId: identity.hostId, signature })))
  linkAccepted.parse(JSON.parse(await hands.hear()))
}
