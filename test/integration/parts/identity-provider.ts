// A real identity provider on this machine, whose keys a test may change, and whose answers it may spoil.
import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, generateKeyPair, type JWK, type JWTPayload, SignJWT } from 'jose'
import { Provider } from 'oidc-provider'

export const audience = 'https://dormouse.example/api'

/** Its clients, by their names; each is of the organisation that stands here. */
type Clients = Record<string, string | undefined>

/** A token that says everything itself need not be kept. */
class Forgetful {
  async find(): Promise<void> {}
  async upsert(): Promise<void> {}
}

/** Made once for all providers of a file: that takes a while. */
const made = new Map<string, Promise<JWK>>()

function keyNamed(kid: string, alg: string): Promise<JWK> {
  const name = `${alg} ${kid}`
  const key =
    made.get(name) ?? generateKeyPair(alg, { extractable: true }).then(({ privateKey }) => exportJWK(privateKey))
  made.set(name, key)
  return key
}

export class IdentityProvider {
  /** Paths it was asked for. */
  readonly asked: string[] = []
  /** The key that signs now, private half included. */
  key!: JWK
  /** Answers instead of the provider, until it is taken away. */
  spoiled: RequestListener | undefined
  readonly #clients: Clients
  #server: Server
  #port = 0
  #answer: RequestListener = () => undefined

  private constructor(clients: Clients) {
    this.#clients = clients
    this.#server = this.#serve()
  }

  static async start(clients: Clients): Promise<IdentityProvider> {
    const provider = new IdentityProvider(clients)
    await provider.up()
    await provider.rotate('first')
    return provider
  }

  get issuer(): string {
    return `http://127.0.0.1:${this.#port}`
  }

  /** How often its keys were asked for. */
  get keysAsked(): number {
    return this.asked.filter((path) => path === '/jwks').length
  }

  /** A key of that name takes the place of all that were before. */
  async rotate(kid: string, alg = 'RS256'): Promise<void> {
    this.key = { ...(await keyNamed(kid, alg)), kid, alg, use: 'sig' }
    this.#answer = new Provider(this.issuer, this.#configuration(alg)).callback()
  }

  #configuration(alg: string): Record<string, unknown> {
    const resourceServer = (resource: string) => ({
      scope: '',
      audience: resource,
      accessTokenFormat: 'jwt',
      accessTokenTTL: 300,
      jwt: { sign: { alg } },
    })
    return {
      adapter: Forgetful,
      ttl: { ClientCredentials: 300 },
      jwks: { keys: [this.key] },
      clients: Object.entries(this.#clients).map(([name, org]) => ({
        client_id: name,
        client_secret: `secret-of-${name}`,
        grant_types: ['client_credentials'],
        redirect_uris: [],
        response_types: [],
        id_token_signed_response_alg: alg,
        ...(org && { org_id: org }),
      })),
      extraClientMetadata: { properties: ['org_id'] },
      extraTokenClaims: (_context: unknown, token: { client: { org_id?: string } }) => ({
        org_id: token.client.org_id,
      }),
      features: {
        clientCredentials: { enabled: true },
        devInteractions: { enabled: false },
        resourceIndicators: {
          enabled: true,
          getResourceServerInfo: (_context: unknown, resource: string) => resourceServer(resource),
        },
      },
    }
  }

  /** An access token as the provider gives it to that client for that resource. */
  async token(client: string, resource = audience): Promise<string> {
    const basic = Buffer.from(`${client}:secret-of-${client}`).toString('base64')
    const response = await fetch(`${this.issuer}/token`, {
      method: 'POST',
      headers: { authorization: `Basic ${basic}` },
      body: new URLSearchParams({ grant_type: 'client_credentials', resource }),
    })
    const answer = (await response.json()) as { access_token?: string }
    if (!answer.access_token) throw new Error(`the provider gave no token: ${JSON.stringify(answer)}`)
    return answer.access_token
  }

  /** A token that the provider would never give, signed with its own key anyway. */
  async forge(claims: JWTPayload, header: { kid?: string | undefined } = {}): Promise<string> {
    const now = Math.floor(Date.now() / 1_000)
    const { kid, alg = '' } = this.key
    return new SignJWT({ iss: this.issuer, aud: audience, sub: 'someone', exp: now + 60, ...claims })
      .setProtectedHeader({ alg, kid, ...header })
      .sign(this.key)
  }

  /** On its earlier port, if it has listened before. */
  async up(): Promise<void> {
    if (!this.#server.listening) this.#server = this.#serve()
    await new Promise<void>((resolve) => this.#server.listen(this.#port, '127.0.0.1', resolve))
    this.#port = (this.#server.address() as AddressInfo).port
  }

  async down(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve))
    this.#server.closeAllConnections()
    await closed
  }

  #serve(): Server {
    return createServer((request: IncomingMessage, response: ServerResponse) => {
      this.asked.push(request.url ?? '')
      ;(this.spoiled ?? this.#answer)(request, response)
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#server.listening) await this.down()
  }
}
