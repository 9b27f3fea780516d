// This host's identity: its private key, which is made here and never sent, and the ids that it got for it. The file is
// readable by its owner only.
import { createPrivateKey, generateKeyPairSync, sign } from 'node:crypto'
import { join } from 'node:path'
import { id, linkProofText } from '@dormouse/contract'
import { StartError } from '@dormouse/process'
import { z } from 'zod'
import { privateFolder, readIfThere, writeDurably } from '../mechanics/durable-file.ts'

const keySchema = z.object({ kty: z.literal('OKP'), crv: z.literal('Ed25519'), x: z.string(), d: z.string() })
const identitySchema = z.object({
  key: keySchema,
  hostId: id.nullable(),
  installationId: id.nullable(),
})
type Stored = z.infer<typeof identitySchema>

export interface Identity extends Stored {
  hostId: string
  installationId: string
}

/** The stored identity. A host without one gets a key, which is stored before it is used. */
export async function loadIdentity(stateDir: string): Promise<Stored> {
  privateFolder(stateDir)
  const path = join(stateDir, 'identity.json')
  const text = await readIfThere(path)
  if (text !== undefined) return parseIdentity(path, text)
  const { privateKey } = generateKeyPairSync('ed25519')
  const fresh: Stored = {
    key: keySchema.parse(privateKey.export({ format: 'jwk' })),
    hostId: null,
    installationId: null,
  }
  await saveIdentity(stateDir, fresh)
  return fresh
}

function parseIdentity(path: string, text: string): Stored {
  try {
    return identitySchema.parse(JSON.parse(text))
  } catch {
    // The error quotes what it cannot read, which may be the key.
    throw new StartError(
      `${path} is not the identity of a host; restore it, or enrol this machine as a new host in an empty DORMOUSE_AGENT_STATE_DIR`,
    )
  }
}

export async function saveIdentity(stateDir: string, identity: Stored): Promise<void> {
  await writeDurably(join(stateDir, 'identity.json'), JSON.stringify(identity))
}

export const isEnrolled = (stored: Stored): stored is Identity =>
  stored.hostId !== null && stored.installationId !== null

/** The part of the key that enrolment sends. */
export function publicKeyOf({ key: { kty, crv, x } }: Stored) {
  return { kty, crv, x }
}

/** The signature with which the control plane that made this nonce accepts a link. */
export function answerTo(nonce: string, { key, hostId, installationId }: Identity): string {
  const text = Buffer.from(linkProofText(installationId, hostId, nonce))
  return sign(null, text, createPrivateKey({ key, format: 'jwk' })).toString('base64url')
}
