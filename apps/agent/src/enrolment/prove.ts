// Proves to a control plane, on a connection that is to become a link, that this is the host that it enrolled.
import { linkAccepted, linkChallenge, linkProof } from '@dormouse/contract'
import type { Handshake } from '@dormouse/link'
import { answerTo, type Identity } from './identity.ts'

/** Signs the control plane's challenge. */
export async function prove(hands: Handshake, identity: Identity): Promise<void> {
  const { nonce } = linkChallenge.parse(JSON.parse(await hands.hear()))
  const signature = answerTo(nonce, identity)
  hands.say(JSON.stringify(linkProof.parse({ hostId: identity.hostId, signature })))
  linkAccepted.parse(JSON.parse(await hands.hear()))
}
