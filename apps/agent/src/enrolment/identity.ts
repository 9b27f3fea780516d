// This host's identity: its private key, which is made here and never sent, and the ids that it got for it. Its files are
// readable by their owner only.
import { createPrivateKey, generateKeyPairSync, sign } from 'node:crypto'
import { join } from 'node:path'
import { id, linkProofText } from '@dormouse/contract'
import { StartError } from '@dormouse/process'
import { z } from 'zod'
import { privateFolder, readIfThere, removeDurably, writeDurably } from '../mechanics/durable-file.ts'

const keySchema = z.object({ kty: z.literal('OKP'), crv: z.literal('Ed25519'), x: z.string(), d: z.string() })
const identitySchema = z.object({
  key: keySchema,
  /** The key that replaces it as soon as a control plane accepts it. */
  nextKey: keySchema.optional(),
  hostId: id,
  installationId: id,
  /** With which it was enrolled; settings win over both. */
  controlPlanes: z.array(z.url()).optional(),
  allowHttp: z.boolean().optional(),
})
export type Identity = z.infer<typeof identitySchema>

/** What a host has before it is enrolled. */
const candidateSchema = z.object({
  key: keySchema,
  /** An invitation that was sent, and where: it may have been accepted although no answer came. */
  tried: z.object({ token: z.string(), controlPlanes: z.array(z.string()) }).optional(),
})
export type Candidate = z.infer<typeof candidateSchema>

/** Only an enrolled host has this file: its unit starts if it is there. */
const identityFile = (stateDir: string) => join(stateDir, 'identity.json')
const candidateFile = (stateDir: string) => join(stateDir, 'not-enrolled.json')

/** The stored identity; undefined if this host is not enrolled. */
export function loadIdentity(stateDir: string): Promise<Identity | undefined> {
  return load(identityFile(stateDir), identitySchema)
}

/** The key of a host that is not enrolled yet. It is stored before it is used. */
export async function loadCandidate(stateDir: string): Promise<Candidate> {
  privateFolder(stateDir)
  const stored = await load(candidateFile(stateDir), candidateSchema)
  if (stored) return stored
  const fresh = { key: newKey() }
  await saveCandidate(stateDir, fresh)
  return fresh
}

export function newKey(): Candidate['key'] {
  const { privateKey } = generateKeyPairSync('ed25519')
  return keySchema.parse(privateKey.export({ format: 'jwk' }))
}

export function saveCandidate(stateDir: string, candidate: Candidate): Promise<void> {
  return writeDurably(candidateFile(stateDir), JSON.stringify(candidate))
}

async function load<S extends z.ZodType>(path: string, schema: S): Promise<z.infer<S> | undefined> {
  const text = await readIfThere(path)
  if (text === undefined) return undefined
  try {
    return schema.parse(JSON.parse(text))
  } catch {
    // The error quotes what it cannot read, which may be the key.
    throw new StartError(
      `${path} is not the identity of a host; restore it, or enrol this machine as a new host in an empty DORMOUSE_AGENT_STATE_DIR`,
    )
  }
}

export async function saveIdentity(stateDir: string, identity: Identity): Promise<void> {
  await writeDurably(identityFile(stateDir), JSON.stringify(identity))
  await removeDurably(candidateFile(stateDir))
}

/** The part of the key that enrolment sends. */
export function publicKeyOf({ key: { kty, crv, x } }: Pick<Candidate, 'key'>) {
  return { kty, crv, x }
}

/** The signature with which the control plane that made this nonce accepts a link. */
export function answerTo(nonce: string, { key, hostId, installationId }: Identity): string {
  const text = Buffer.from(linkProofText(installationId, hostId, nonce))
  return sign(null, text, createPrivateKey({ key, format: 'jwk' })).toString('base64url')
}
