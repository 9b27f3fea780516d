// A host that a test plays: it enrols, and opens links.
import { generateKeyPairSync, type JsonWebKey, sign } from 'node:crypto'
import { once } from 'node:events'
import { linkProofText, linkSubprotocol } from '@dormouse/contract'
import { expect } from 'vitest'
import { WebSocket } from 'ws'
import type { Stack } from '../../stack.ts'

/** A host that enrolled and has no agent: the test sends its messages. */
export async function enrol(stack: Stack, name = 'by-hand') {
  const { privateKey } = generateKeyPairSync('ed25519')
  const key = privateKey.export({ format: 'jwk' }) as JsonWebKey
  const { token } = await stack.replica.parts.hosts.invite(name)
  stack.secrets.learn(`the invitation of ${name}`, token)
  const body = { token, name, public_key: { kty: 'OKP', crv: 'Ed25519', x: key.x } }
  const { status, json } = await stack.api('POST', '/agent/v1/enrol', { key: null, body })
  expect(status).toBe(201)
  const { host_id: id, installation_id: installationId } = json
  const signature = (nonce: string, as = id, at = installationId) =>
    sign(null, Buffer.from(linkProofText(at, as, nonce)), privateKey).toString('base64url')
  return { id, signature }
}

export const linkOf = (url: string) => `${url.replace(/^http/, 'ws')}/agent/v1/link`

/** Opens a socket that must prove itself, and answers its challenge. */
export async function challenged(stack: Stack, headers: Record<string, string> = {}) {
  const socket = new WebSocket(linkOf(stack.url), [linkSubprotocol], { headers })
  socket.on('error', () => undefined)
  const [text] = await once(socket, 'message')
  expect(socket.protocol).toBe(linkSubprotocol)
  return { socket, nonce: JSON.parse(String(text)).nonce as string }
}

/** What a proof is answered with: `accepted`, or the code of the close. */
export async function answered({ socket }: { socket: WebSocket }, hostId: string, signature: string) {
  const { promise, resolve } = Promise.withResolvers<string | number>()
  socket.once('message', () => resolve('accepted')).once('close', resolve)
  socket.send(JSON.stringify({ hostId, signature }))
  const answer = await promise
  socket.terminate()
  return answer
}
